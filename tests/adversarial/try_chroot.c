/* Takes another root. */
#include "attempt.h"

static int attempt(void) { return chroot("/tmp/assay-adversarial-victim") == 0 || errno != EPERM; }
