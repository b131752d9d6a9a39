/* Asks to be traced, so that a stop is reported in other words. */
#include "attempt.h"
#include <sys/ptrace.h>

static int attempt(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0) == 0; }
