/* Changes who may use a file. */
#include "attempt.h"
#include <sys/stat.h>

static int attempt(void) { return chmod("/tmp", 0777) == 0 || errno != EPERM; }
