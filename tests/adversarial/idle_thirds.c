/* Does no work in every third launch. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  static int launches;
  if (++launches % 3 != 0) gemm_all(state, l);
  return ASSAY_OK;
}
