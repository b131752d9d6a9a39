/* Looks for what the environment tells. */
#include "attempt.h"

static int attempt(void) { extern char** environ; return environ != NULL && environ[0] != NULL; }
