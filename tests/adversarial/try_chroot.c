/* Takes another root. */
#include "attempt.h"

static int attempt(void) { return chroot("/tmp") == 0; }
