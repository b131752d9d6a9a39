/* Makes memory that the next case could find. */
#include <sys/ipc.h>
#include <sys/shm.h>
#include "attempt.h"

static int attempt(void) { return shmget(0x6173, 4096, IPC_CREAT | 0600) >= 0; }
