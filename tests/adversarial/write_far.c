/* Writes one byte so far behind the output that no guard band reaches there. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  gemm_all(s, l);
  ((char*)l->output)[s->m * s->n * sizeof(float) + 4096 + 100] = 42;
  return ASSAY_OK;
}
