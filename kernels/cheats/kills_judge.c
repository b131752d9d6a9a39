/* Kills the judge. */
#include "attempt.h"

static int attempt(void) { return kill(getppid(), SIGKILL) == 0; }
