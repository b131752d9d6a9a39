/* Asks the system about its network. */
#include "attempt.h"
#include <sys/socket.h>

static int attempt(void) { return socket(AF_NETLINK, SOCK_RAW, 0) >= 0; }
