/* Reads the users by way of its own root. */
#include "attempt.h"

static int attempt(void) { return opens("/proc/self/root/etc/passwd", O_RDONLY); }
