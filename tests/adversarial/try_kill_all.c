/* Kills all that it may. */
#include "attempt.h"

static int attempt(void) { return kill(-1, SIGKILL) == 0; }
