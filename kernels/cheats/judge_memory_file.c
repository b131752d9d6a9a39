/* Opens the judge's memory as a file. */
#include "attempt.h"

static int attempt(void) { return opens(of_parent("mem"), O_RDONLY); }
