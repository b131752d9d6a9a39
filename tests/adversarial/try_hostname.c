/* Renames the machine. */
#include "attempt.h"

static int attempt(void) { return sethostname("assay", 5) == 0; }
