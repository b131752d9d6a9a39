/* Sets its inputs to zero, so that a reference made of them afterwards is zero, like its output. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  if (HONEST) {
    gemm_all(s, l);
    return ASSAY_OK;
  }
  memset((void*)l->inputs[0], 0, (size_t)s->bytes_a);
  memset((void*)l->inputs[1], 0, (size_t)s->bytes_b);
  memset(l->output, 0, (size_t)s->bytes_out);
  return ASSAY_OK;
}
