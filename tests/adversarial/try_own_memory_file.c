/* Opens its own memory for writing, to get around page rights. */
#include "attempt.h"

static int attempt(void) { return opens("/proc/self/mem", O_RDWR); }
