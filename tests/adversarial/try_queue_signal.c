/* Sends a signal with a value to the judge. */
#include "attempt.h"

static int attempt(void) { union sigval v = {0}; return sigqueue(getppid(), SIGTERM, v) == 0; }
