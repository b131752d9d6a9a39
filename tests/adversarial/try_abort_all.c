/* Ends all that it may with the one signal that abort() needs. */
#include "attempt.h"

static int attempt(void) { return kill(-1, SIGABRT) == 0; }
