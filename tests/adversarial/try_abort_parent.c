/* Ends the judge with the one signal that abort() needs. */
#include "attempt.h"

static int attempt(void) { return kill(getppid(), SIGABRT) == 0; }
