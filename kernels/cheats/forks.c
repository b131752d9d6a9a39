/* Makes another process. */
#include "attempt.h"

static int attempt(void) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  return child > 0;
}
