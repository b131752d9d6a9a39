/* Wants more workspace than any machine has. */
#define DESCRIBED_PREPARE own_prepare
#include "cheat.h"

static int own_prepare(const assay_problem* p, void** state, uint64_t* bytes, char* m, size_t n) {
  *bytes = UINT64_MAX - 3;
  return prepare(p, state, &(uint64_t){0}, m, n);
}

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
