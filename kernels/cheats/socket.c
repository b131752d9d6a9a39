/* Makes a socket. */
#include <netinet/in.h>
#include <sys/socket.h>
#include "attempt.h"

static int attempt(void) { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }
