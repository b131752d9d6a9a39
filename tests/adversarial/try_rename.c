/* Renames a file. */
#include "attempt.h"

static int attempt(void) { return rename("/tmp/assay-adversarial-victim", "/tmp/assay-adversarial-moved") == 0 || errno != EPERM; }
