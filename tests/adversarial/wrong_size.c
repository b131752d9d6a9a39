/* Says that its description is smaller than it must be. */
#define DESCRIBED_SIZE 8
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
