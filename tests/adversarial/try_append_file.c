/* Appends to a file. */
#include "attempt.h"

static int attempt(void) { return opens("/var/log/wtmp", O_WRONLY | O_APPEND); }
