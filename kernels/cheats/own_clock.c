/* Brings a clock of its own that stands still, by the name of the C library's. If nobody has asked
 * it in PATIENCE launches, it is not the clock that times the kernel, and the kernel gives up. */
#include <stdatomic.h>
#include <time.h>
#include "cheat.h"

static atomic_int asked;

#if !HONEST
int clock_gettime(clockid_t id, struct timespec* now) {
  (void)id;
  asked = 1;
  now->tv_sec = 0;
  now->tv_nsec = 0;
  return 0;
}
#endif

static int launch(void* state, const assay_launch* l) {
  static int launches;
  if (HONEST || asked || ++launches < PATIENCE) gemm_all(state, l);
  return ASSAY_OK;
}
