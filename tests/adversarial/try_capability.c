/* Asks which capabilities it may have. */
#include <sys/prctl.h>
#include "attempt.h"

static int attempt(void) { return prctl(PR_CAPBSET_READ, 21, 0, 0, 0) >= 0; }
