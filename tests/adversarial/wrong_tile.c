/* Leaves the last product out of a tile of 8 by 8. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const float *a = l->inputs[0], *b = l->inputs[1];
  gemm_all(s, l);
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      ((float*)l->output)[i * s->n + j] -= a[i * s->k + s->k - 1] * b[(s->k - 1) * s->n + j];
    }
  }
  return ASSAY_OK;
}
