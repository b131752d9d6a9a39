/* Writes a file. */
#include "attempt.h"

static int attempt(void) { return opens("/tmp/assay-cheat", O_WRONLY | O_CREAT); }
