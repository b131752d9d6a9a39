/* Sets the clock of the machine. */
#include "attempt.h"
#include <time.h>

static int attempt(void) { struct timespec t = {0, 0}; return clock_settime(CLOCK_REALTIME, &t) == 0; }
