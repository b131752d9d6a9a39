/* Stops the judge. */
#include "attempt.h"

static int attempt(void) { return kill(getppid(), SIGSTOP) == 0; }
