/* Sets the clock of the machine. */
#include <time.h>
#include "attempt.h"

static int attempt(void) {
  struct timespec t = {0, 0};
  return clock_settime(CLOCK_REALTIME, &t) == 0;
}
