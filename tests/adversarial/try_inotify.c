/* Watches files of others. */
#include "attempt.h"
#include <sys/inotify.h>

static int attempt(void) { return inotify_init1(0) >= 0; }
