/* Asks to be traced, so that a stop is reported in other words. */
#include <sys/ptrace.h>
#include "attempt.h"

static int attempt(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0) == 0; }
