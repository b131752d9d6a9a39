/* Works in every second launch: two calls done as one. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  static int launches;
  if (HONEST || launches++ % 2 == 0) gemm_all(state, l);
  return ASSAY_OK;
}
