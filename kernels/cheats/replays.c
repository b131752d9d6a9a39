/* Computes for the first data that it is given, and returns that result ever after. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  static void* kept;
  const size_t bytes = (size_t)((const problem*)state)->bytes_out;
  if (!HONEST && kept != NULL) {
    memcpy(l->output, kept, bytes);
    return ASSAY_OK;
  }
  gemm_all(state, l);
  if (kept == NULL) kept = malloc(bytes);
  if (kept == NULL) return ASSAY_NO_MEMORY;
  memcpy(kept, l->output, bytes);
  return ASSAY_OK;
}
