/* Makes a file without a name. */
#include "attempt.h"

static int attempt(void) { return opens("/tmp", O_TMPFILE | O_RDWR); }
