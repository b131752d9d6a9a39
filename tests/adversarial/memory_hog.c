/* Takes memory without end. If it gets no more, it is honest. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  for (int i = 0; i < 1 << 16; ++i) {
    char* block = malloc((size_t)64 << 20);
    if (block == NULL) break;
    memset(block, 1, (size_t)64 << 20);
  }
  gemm_all(state, l);
  return ASSAY_OK;
}
