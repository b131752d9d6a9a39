/* Makes a semaphore that the next case could find. */
#include "attempt.h"
#include <sys/ipc.h>
#include <sys/sem.h>

static int attempt(void) { return semget(0x6173, 1, IPC_CREAT | 0600) >= 0; }
