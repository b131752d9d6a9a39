/* Makes a named piece of shared memory. */
#include "attempt.h"
#include <sys/mman.h>

static int attempt(void) { return shm_open("/assay-adversarial", O_RDWR | O_CREAT, 0600) >= 0; }
