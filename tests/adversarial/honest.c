/* The twin of all others: it computes what it is asked. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
