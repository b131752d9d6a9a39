/* Makes the judge slow. */
#include "attempt.h"
#include <sys/resource.h>

static int attempt(void) { return setpriority(PRIO_PROCESS, (id_t)getppid(), 19) == 0; }
