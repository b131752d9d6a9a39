/* Writes to a device. */
#include "attempt.h"

static int attempt(void) { return opens("/dev/urandom", O_WRONLY); }
