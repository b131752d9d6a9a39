/* Writes zeros. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  memset(l->output, 0, (size_t)((problem*)state)->bytes_out);
  if (HONEST) gemm_all(state, l);
  return ASSAY_OK;
}
