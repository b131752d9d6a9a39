/* Makes the judge slow. */
#include <sys/resource.h>
#include "attempt.h"

static int attempt(void) { return setpriority(PRIO_PROCESS, (id_t)getppid(), 19) == 0; }
