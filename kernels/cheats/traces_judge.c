/* Traces the judge. */
#include <sys/ptrace.h>
#include "attempt.h"

static int attempt(void) { return ptrace(PTRACE_SEIZE, getppid(), 0, 0) == 0; }
