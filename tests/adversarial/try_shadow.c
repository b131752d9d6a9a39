/* Reads the passwords. */
#include "attempt.h"

static int attempt(void) { return opens("/etc/shadow", O_RDONLY); }
