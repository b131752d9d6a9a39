/* Says in prepare that it does not take the problem. */
#define DESCRIBED_PREPARE own_prepare
#include "cheat.h"

static int own_prepare(const assay_problem* p, void** state, uint64_t* bytes, char* m, size_t n) {
  (void)p, (void)state, (void)bytes;
  strncpy(m, "k must be a multiple of 1024", n);
  return ASSAY_UNSUPPORTED;
}

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
