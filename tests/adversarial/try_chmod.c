/* Changes who may use a file. */
#include <sys/stat.h>
#include "attempt.h"

static int attempt(void) {
  return chmod("/tmp/assay-adversarial-victim", 0777) == 0 || errno != EPERM;
}
