/* Computes another operator. */
#define DESCRIBED_OP "softmax"
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
