/* Opens a disk. */
#include "attempt.h"

static int attempt(void) { return opens("/dev/vda", O_RDONLY) || opens("/dev/sda", O_RDONLY); }
