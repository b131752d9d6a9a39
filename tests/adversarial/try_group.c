/* Leaves the group of the judge. */
#include "attempt.h"

static int attempt(void) { return setpgid(0, 0) == 0; }
