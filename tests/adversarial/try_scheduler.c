/* Makes itself the first of all. */
#include <sched.h>
#include "attempt.h"

static int attempt(void) {
  struct sched_param p = {1}, wrong = {0};
  return sched_setscheduler(0, SCHED_FIFO, &p) == 0 ||
         sched_setscheduler(0, SCHED_FIFO, &wrong) == 0 || errno != EPERM;
}
