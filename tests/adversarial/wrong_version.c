/* Says that it was built against another version of the header. */
#define DESCRIBED_VERSION 99
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
