/* Makes a folder. */
#include "attempt.h"
#include <sys/stat.h>

static int attempt(void) { return mkdir("/tmp/assay-adversarial-folder", 0700) == 0; }
