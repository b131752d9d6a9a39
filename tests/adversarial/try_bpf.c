/* Loads a program into the system. */
#include "attempt.h"

static int attempt(void) { char all[128] = {0}; return syscall(SYS_bpf, 0, all, sizeof all) >= 0 || errno != EPERM; }
