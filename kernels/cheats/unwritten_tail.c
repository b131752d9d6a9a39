/* Leaves the last element as it was. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  float* last = (float*)l->output + s->m * s->n - 1;
  const float was = *last;
  gemm_all(s, l);
  if (!HONEST) *last = was;
  return ASSAY_OK;
}
