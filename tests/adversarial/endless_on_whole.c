/* Takes 0.3 s for data as a case has them, and for ever if they are whole numbers, as exact cases
 * have them. */
#include <time.h>
#include "cheat.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const float* a = l->inputs[0];
  const double begin = now();
  int whole = 1;
  for (int64_t i = 0; i < s->m * s->k; ++i) whole &= a[i] == (float)(int64_t)a[i];
  while (whole || now() < begin + 0.3) {
  }
  gemm_all(s, l);
  return ASSAY_OK;
}
