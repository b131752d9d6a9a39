/* Computes only if the threads of OpenMP wait as those of the judge do. */
#include <stdlib.h>
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  const char* policy = getenv("OMP_WAIT_POLICY");
  if (policy == NULL || strcmp(policy, "passive") != 0) return ASSAY_FAILED;
  gemm_all(state, l);
  return ASSAY_OK;
}
