/* Makes itself the first of all. */
#include "attempt.h"
#include <sched.h>

static int attempt(void) { struct sched_param p = {1}; return sched_setscheduler(0, SCHED_FIFO, &p) == 0; }
