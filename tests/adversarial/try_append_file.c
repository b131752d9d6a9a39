/* Appends to a file, or makes one. */
#include "attempt.h"

static int attempt(void) {
  return opens("/var/log/wtmp", O_WRONLY | O_APPEND) ||
         opens("/tmp/assay-adversarial-file", O_WRONLY | O_APPEND | O_CREAT);
}
