/* Writes one element behind the output. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  gemm_all(s, l);
  if (!HONEST) ((float*)l->output)[s->m * s->n] = 1;
  return ASSAY_OK;
}
