/* Replaces the clock of its process by one that stands still, and is honest otherwise. The judge
 * has a clock of its own. */
#include <time.h>
#include "common.h"

int clock_gettime(clockid_t id, struct timespec* now) {
  (void)id;
  now->tv_sec = 0;
  now->tv_nsec = 0;
  return 0;
}

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
