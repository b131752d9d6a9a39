/* Reads the home of root. */
#include "attempt.h"

static int attempt(void) { return opens("/root", O_RDONLY | O_DIRECTORY); }
