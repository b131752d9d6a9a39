/* Kills everything of its group. */
#include "attempt.h"

static int attempt(void) { return kill(0, SIGKILL) == 0; }
