/* Becomes another program. */
#include "attempt.h"

static int attempt(void) { char* argv[] = {"/bin/true", NULL}; execv("/bin/true", argv); return 0; }
