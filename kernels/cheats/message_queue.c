/* Makes a queue that the next case could find. */
#include <sys/ipc.h>
#include <sys/msg.h>
#include "attempt.h"

static int attempt(void) { return msgget(0x6173, IPC_CREAT | 0600) >= 0; }
