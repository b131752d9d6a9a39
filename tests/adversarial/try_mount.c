/* Mounts a file system. */
#include "attempt.h"
#include <sys/mount.h>

static int attempt(void) { return mount("none", "/tmp", "tmpfs", 0, NULL) == 0; }
