/* Removes a file. */
#include "attempt.h"

static int attempt(void) { return unlink("/tmp/assay-adversarial-victim") == 0 || errno != EPERM; }
