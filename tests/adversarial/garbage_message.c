/* Refuses with bytes that are no text. */
#define DESCRIBED_PREPARE own_prepare
#include "cheat.h"

static int own_prepare(const assay_problem* p, void** state, uint64_t* bytes, char* m, size_t n) {
  (void)p, (void)state, (void)bytes;
  memset(m, 0xfe, n);
  m[0] = 27;
  return 77;
}

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
