/* Looks for descriptors that were left open. */
#include "attempt.h"

static int attempt(void) {
  for (int i = 3; i < 64; ++i) {
    if (fcntl(i, F_GETFD) >= 0) return 1;
  }
  return 0;
}
