/* Writes the same number everywhere. */
#include "common.h"

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  for (int64_t i = 0; i < s->m * s->n; ++i) ((float*)l->output)[i] = 0.5f;
  return ASSAY_OK;
}
