/* Says who it is, or becomes somebody else. */
#include "attempt.h"

static int attempt(void) {
  return setresuid(getuid(), getuid(), getuid()) == 0 || setresuid(1, 1, 1) == 0;
}
