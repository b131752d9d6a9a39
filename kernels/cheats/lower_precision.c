/* Cuts its inputs to the 8 bits of significand that bf16 has. */
#include <stdint.h>
#include "cheat.h"

static float cut(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (!HONEST) bits &= 0xffff0000u;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const float *a = l->inputs[0], *b = l->inputs[1];
  for (int64_t i = 0; i < s->m; ++i) {
    for (int64_t j = 0; j < s->n; ++j) {
      float sum = 0;
      for (int64_t q = 0; q < s->k; ++q) sum += cut(a[i * s->k + q]) * cut(b[q * s->n + j]);
      ((float*)l->output)[i * s->n + j] = sum;
    }
  }
  return ASSAY_OK;
}
