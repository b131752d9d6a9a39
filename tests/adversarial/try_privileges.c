/* Becomes somebody else. */
#include "attempt.h"

static int attempt(void) { return setresuid(1, 1, 1) == 0; }
