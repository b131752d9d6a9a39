/* Changes who may use a file. */
#include <sys/stat.h>
#include "attempt.h"

static int attempt(void) { return chmod("/tmp", 0777) == 0 || errno != EPERM; }
