/* Runs a command. */
#include "attempt.h"

static int attempt(void) { return system("true") == 0; }
