/* Enters a namespace of its own. */
#include "attempt.h"
#include <sched.h>

static int attempt(void) { return unshare(CLONE_NEWUSER) == 0; }
