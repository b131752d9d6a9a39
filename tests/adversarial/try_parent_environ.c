/* Reads the judge's environment. */
#include "attempt.h"

static int attempt(void) { return opens(of_parent("environ"), O_RDONLY); }
