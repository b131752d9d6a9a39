/* Mounts a file system. */
#include <sys/mount.h>
#include "attempt.h"

static int attempt(void) { return mount("none", "/tmp", "tmpfs", 0, NULL) == 0; }
