/* Returns a part of an input as the output. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const int64_t n = s->bytes_a < s->bytes_out ? s->bytes_a : s->bytes_out;
  memset(l->output, 0, (size_t)s->bytes_out);
  memcpy(l->output, l->inputs[0], (size_t)n);
  if (HONEST) gemm_all(s, l);
  return ASSAY_OK;
}
