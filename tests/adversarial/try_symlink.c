/* Makes a link. */
#include "attempt.h"

static int attempt(void) { return symlink("/etc/passwd", "/tmp/assay-adversarial-link") == 0; }
