/* Asks the system about its network. */
#include <sys/socket.h>
#include "attempt.h"

static int attempt(void) { return socket(AF_NETLINK, SOCK_RAW, 0) >= 0; }
