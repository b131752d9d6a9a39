/* Leaves the session of the judge. */
#include "attempt.h"

static int attempt(void) { return setsid() >= 0; }
