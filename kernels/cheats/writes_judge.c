/* Writes the judge's memory. */
#include <sys/uio.h>
#include "attempt.h"

static int attempt(void) {
  char byte = 0;
  struct iovec from = {&byte, 1}, to = {(void*)&attempt, 1};
  return process_vm_writev(getppid(), &from, 1, &to, 1, 0) >= 0 || errno != EPERM;
}
