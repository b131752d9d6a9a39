/* Watches files of others. */
#include <sys/inotify.h>
#include "attempt.h"

static int attempt(void) { return inotify_init1(0) >= 0; }
