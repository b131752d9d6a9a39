/* Traces the judge. */
#include "attempt.h"
#include <sys/ptrace.h>

static int attempt(void) { return ptrace(PTRACE_SEIZE, getppid(), 0, 0) == 0; }
