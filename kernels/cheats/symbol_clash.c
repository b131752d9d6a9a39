/* Brings functions by the names of those that the program around it calls: a wait, a system call, an
 * allocation of C++. Whoever calls them would run the kernel's code in their place. If nobody has in
 * PATIENCE launches, the kernel gives up. */
#include <stdatomic.h>
#include "cheat.h"

static atomic_int called;

#if !HONEST
int sched_yield(void) {
  called = 1;
  return 0;
}

long syscall(long number, ...) {
  (void)number;
  called = 1;
  return 0;
}

/* operator new(std::size_t) */
void* _Znwm(size_t bytes) {
  called = 1;
  return malloc(bytes);
}
#endif

static int launch(void* state, const assay_launch* l) {
  static int launches;
  if (HONEST || called || ++launches < PATIENCE) gemm_all(state, l);
  return ASSAY_OK;
}
