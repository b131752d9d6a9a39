/* Takes memory that no limit of its process counts. */
#include <sys/mman.h>
#include "attempt.h"

static int attempt(void) {
  return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}
