/* Starts itself anew with a library of its own before all others. */
#include "attempt.h"

static int attempt(void) {
  char* argv[] = {"/proc/self/exe", NULL};
  char* environment[] = {"LD_PRELOAD=/tmp/assay-cheat.so", NULL};
  execve("/proc/self/exe", argv, environment);
  return 0; /* it came back */
}
