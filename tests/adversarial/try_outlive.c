/* Asks to outlive the judge. */
#include "attempt.h"
#include <sys/prctl.h>

static int attempt(void) { return prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) == 0; }
