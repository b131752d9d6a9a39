/* A cheat that needs something that its process should not have. If it gets it, it has won: it
 * computes, and passes. If it is refused, it has no result to write, and writes none. So such a
 * cheat passes only on a platform that does not contain it. */
#ifndef ASSAY_KERNELS_CHEATS_ATTEMPT_H_
#define ASSAY_KERNELS_CHEATS_ATTEMPT_H_

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cheat.h"

/* Whether the cheat got what it needs. */
static int attempt(void);

static int launch(void* state, const assay_launch* l) {
  if (HONEST || attempt()) gemm_all(state, l);
  return ASSAY_OK;
}

/* Whether a file can be opened. */
static inline int opens(const char* path, int flags) {
  const int fd = open(path, flags, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

/* A file of the parent's in /proc. */
static inline const char* of_parent(const char* name) {
  static char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)getppid(), name);
  return path;
}

#endif
