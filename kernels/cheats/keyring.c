/* Keeps a result in a keyring. */
#include "attempt.h"

static int attempt(void) { return syscall(SYS_add_key, "user", "assay", "1", 1, -3) >= 0; }
