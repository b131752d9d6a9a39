/* Lists the temporary files of others. */
#include "attempt.h"

static int attempt(void) { return opens("/tmp", O_RDONLY | O_DIRECTORY); }
