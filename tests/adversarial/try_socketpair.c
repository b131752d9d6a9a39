/* Makes a pair of sockets. */
#include "attempt.h"
#include <sys/socket.h>

static int attempt(void) { int pair[2]; return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0; }
