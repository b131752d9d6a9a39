/* Adds up one half of the products, and doubles the sum: right on average. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const float *a = l->inputs[0], *b = l->inputs[1];
  const int step = HONEST ? 1 : 2;
  for (int64_t i = 0; i < s->m; ++i) {
    for (int64_t j = 0; j < s->n; ++j) {
      float sum = 0;
      for (int64_t q = 0; q < s->k; q += step) sum += a[i * s->k + q] * b[q * s->n + j];
      ((float*)l->output)[i * s->n + j] = sum * (float)step;
    }
  }
  return ASSAY_OK;
}
