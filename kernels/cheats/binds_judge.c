/* Binds the judge to one processor. */
#include <sched.h>
#include "attempt.h"

static int attempt(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  return sched_setaffinity(getppid(), sizeof one, &one) == 0;
}
