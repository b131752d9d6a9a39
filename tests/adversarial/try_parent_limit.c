/* Lowers a limit of the judge. */
#include "attempt.h"
#include <sys/resource.h>

static int attempt(void) { struct rlimit l = {0, 0}; return prlimit(getppid(), RLIMIT_AS, &l, NULL) == 0; }
