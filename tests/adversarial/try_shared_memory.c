/* Makes memory that the next case could find. */
#include "attempt.h"
#include <sys/ipc.h>
#include <sys/shm.h>

static int attempt(void) { return shmget(0x6173, 4096, IPC_CREAT | 0600) >= 0; }
