/* Makes a named piece of shared memory. */
#include <sys/mman.h>
#include "attempt.h"

static int attempt(void) { return shm_open("/assay-cheat", O_RDWR | O_CREAT, 0600) >= 0; }
