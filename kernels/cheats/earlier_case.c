/* Looks in memory that it gets anew for what an earlier case left there. */
#include <sys/mman.h>
#include "attempt.h"

static int attempt(void) {
  const size_t bytes = (size_t)16 << 20;
  const char* fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int found = 0;
  if (fresh == MAP_FAILED) return 0;
  for (size_t i = 0; i < bytes; ++i) found |= fresh[i] != 0;
  munmap((void*)fresh, bytes);
  return found;
}
