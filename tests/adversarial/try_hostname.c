/* Renames the machine. No name is so long, so that the machine keeps its own. */
#include "attempt.h"

static int attempt(void) { return sethostname("assay", 1 << 20) == 0 || errno != EPERM; }
