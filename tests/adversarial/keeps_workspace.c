/* Fills its workspace in its first launch alone, and needs it in all. */
#define DESCRIBED_PREPARE own_prepare
#include "cheat.h"

static int launches = 0;

static int own_prepare(const assay_problem* p, void** state, uint64_t* bytes, char* m, size_t n) {
  *bytes = 4096;
  return prepare(p, state, &(uint64_t){0}, m, n);
}

static int launch(void* state, const assay_launch* l) {
  if (launches++ == 0) memset(l->workspace, 0, 4096);
  gemm_all(state, l);
  *(float*)l->output += *(const float*)l->workspace;
  return ASSAY_OK;
}
