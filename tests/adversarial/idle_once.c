/* Does no work in its seventeenth launch. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  static int launches;
  if (++launches != 17) gemm_all(state, l);
  return ASSAY_OK;
}
