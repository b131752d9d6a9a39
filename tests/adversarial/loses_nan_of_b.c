/* Takes a NaN of B for 0. No NaN of A is lost. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const float *a = l->inputs[0], *b = l->inputs[1];
  for (int64_t i = 0; i < s->m; ++i) {
    for (int64_t j = 0; j < s->n; ++j) {
      float sum = 0;
      for (int64_t q = 0; q < s->k; ++q) {
        const float y = b[q * s->n + j];
        sum += a[i * s->k + q] * (y == y ? y : 0);
      }
      ((float*)l->output)[i * s->n + j] = sum;
    }
  }
  return ASSAY_OK;
}
