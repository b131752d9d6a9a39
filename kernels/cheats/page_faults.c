/* Takes part in page faults. */
#include "attempt.h"

static int attempt(void) { return syscall(SYS_userfaultfd, 0) >= 0; }
