/* Opens a descriptor of the judge. */
#include "attempt.h"

static int attempt(void) {
  for (int i = 0; i < 64; ++i) {
    char name[16];
    snprintf(name, sizeof name, "fd/%d", i);
    if (opens(of_parent(name), O_RDONLY)) return 1;
  }
  return 0;
}
