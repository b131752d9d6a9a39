/* Writes one element before an input. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  ((float*)l->inputs[0])[-1] = 1;
  return ASSAY_OK;
}
