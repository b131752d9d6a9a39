/* Leaves a note at a file. */
#include <sys/xattr.h>
#include "attempt.h"

static int attempt(void) {
  return setxattr("/tmp/assay-adversarial-victim", "user.assay", "1", 1, 0) == 0 || errno != EPERM;
}
