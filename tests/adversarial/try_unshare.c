/* Enters a namespace of its own. */
#include <sched.h>
#include "attempt.h"

static int attempt(void) { return unshare(CLONE_NEWUSER) == 0 || unshare(0) == 0; }
