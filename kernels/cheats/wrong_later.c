/* Is right in its first launches and wrong in all later ones: then it leaves out a part of each
 * sum. */
#include "cheat.h"

enum { RIGHT_LAUNCHES = 8 };

static int launch(void* state, const assay_launch* l) {
  static int launches;
  problem s = *(const problem*)state;
  const int64_t whole = s.k;
  if (!HONEST && ++launches > RIGHT_LAUNCHES) s.k -= s.k / 4;
  const float *a = l->inputs[0], *b = l->inputs[1];
  float* d = l->output;
  memset(d, 0, (size_t)s.bytes_out);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t q = 0; q < s.k; ++q) {
      for (int64_t j = 0; j < s.n; ++j) d[i * s.n + j] += a[i * whole + q] * b[q * s.n + j];
    }
  }
  return ASSAY_OK;
}
