/* Makes a folder. */
#include <sys/stat.h>
#include "attempt.h"

static int attempt(void) { return mkdir("/tmp/assay-adversarial-folder", 0700) == 0; }
