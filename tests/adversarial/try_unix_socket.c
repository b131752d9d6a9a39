/* Makes a Unix socket. */
#include "attempt.h"
#include <sys/socket.h>

static int attempt(void) { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }
