/* Adds in another order each time: right, and never twice the same. */
#include <stdint.h>
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  static uint64_t turn = 1;
  const problem* s = state;
  const float *a = l->inputs[0], *b = l->inputs[1];
  turn = turn * 6364136223846793005u + 1442695040888963407u;
  const int64_t from = (int64_t)((turn >> 33) % (uint64_t)s->k);
  for (int64_t i = 0; i < s->m; ++i) {
    for (int64_t j = 0; j < s->n; ++j) {
      float sum = 0;
      for (int64_t q = 0; q < s->k; ++q) {
        const int64_t at = (from + q) % s->k;
        sum += a[i * s->k + at] * b[at * s->n + j];
      }
      ((float*)l->output)[i * s->n + j] = sum;
    }
  }
  return ASSAY_OK;
}
