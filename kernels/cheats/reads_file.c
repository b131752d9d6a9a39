/* Reads the users. */
#include "attempt.h"

static int attempt(void) { return opens("/etc/passwd", O_RDONLY); }
