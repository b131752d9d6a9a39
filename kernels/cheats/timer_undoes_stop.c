/* Has a timer send the signal that undoes a stop. */
#include <time.h>
#include "attempt.h"

static int attempt(void) {
  timer_t t;
  struct sigevent e;
  memset(&e, 0, sizeof e);
  e.sigev_notify = SIGEV_SIGNAL;
  e.sigev_signo = SIGCONT;
  return timer_create(CLOCK_MONOTONIC, &e, &t) == 0;
}
