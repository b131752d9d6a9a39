/* Makes a socket. */
#include "attempt.h"
#include <sys/socket.h>
#include <netinet/in.h>

static int attempt(void) { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }
