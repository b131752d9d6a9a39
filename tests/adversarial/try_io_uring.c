/* Has the system open files for it. */
#include "attempt.h"

static int attempt(void) { char p[120] = {0}; return syscall(SYS_io_uring_setup, 4, p) >= 0; }
