/* Writes the same number everywhere. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  for (int64_t i = 0; i < s->m * s->n; ++i) ((float*)l->output)[i] = 0.5f;
  if (HONEST) gemm_all(s, l);
  return ASSAY_OK;
}
