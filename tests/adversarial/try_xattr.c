/* Leaves a note at a file. */
#include "attempt.h"
#include <sys/xattr.h>

static int attempt(void) { return setxattr("/tmp", "user.assay", "1", 1, 0) == 0 || errno != EPERM; }
