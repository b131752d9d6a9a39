/* Looks for a capability. */
#include "attempt.h"
#include <sys/prctl.h>

static int attempt(void) { return prctl(PR_CAPBSET_READ, 21, 0, 0, 0) > 0; }
