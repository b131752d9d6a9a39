/* Makes a Unix socket. */
#include <sys/socket.h>
#include "attempt.h"

static int attempt(void) { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }
