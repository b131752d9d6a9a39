/* Makes itself unreadable for the judge. */
#include "attempt.h"
#include <sys/prctl.h>

static int attempt(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0; }
