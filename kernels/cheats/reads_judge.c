/* Reads the judge's memory. */
#include <sys/uio.h>
#include "attempt.h"

static int attempt(void) {
  char byte;
  struct iovec to = {&byte, 1}, from = {(void*)&attempt, 1};
  return process_vm_readv(getppid(), &to, 1, &from, 1, 0) >= 0 || errno != EPERM;
}
