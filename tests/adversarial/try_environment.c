/* Looks for what the environment tells, beside how libraries use their threads and the processor. */
#include <string.h>

#include "attempt.h"

static int attempt(void) {
  extern char** environ;
  for (char** entry = environ; entry != NULL && *entry != NULL; ++entry) {
    if (strncmp(*entry, "OMP_", 4) != 0 && strncmp(*entry, "OPENBLAS_", 9) != 0) return 1;
  }
  return 0;
}
