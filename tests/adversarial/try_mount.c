/* Mounts a file system. */
#include <sys/mount.h>
#include "attempt.h"

static int attempt(void) {
  return mount("none", "/tmp/assay-adversarial-victim", "tmpfs", 0, NULL) == 0 || errno != EPERM;
}
