/* Moves data through a pipe. */
#include "attempt.h"

static int attempt(void) { int p[2]; return pipe(p) == 0; }
