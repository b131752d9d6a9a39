/* Makes itself unreadable for the judge. */
#include <sys/prctl.h>
#include "attempt.h"

static int attempt(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0; }
