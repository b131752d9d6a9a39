/* A kernel that tries to reach something. If it succeeds, it writes zeros, which the judge sees. If
 * it is refused, it computes, and passes: that is the outcome which the table expects.
 *
 * The system itself refuses some calls to an ordinary user, with EPERM. Such a call gets an
 * argument that is wrong, so that it has another error if no filter stands before it. No file has
 * the name /tmp/assay-adversarial-victim. */
#ifndef ASSAY_TESTS_ADVERSARIAL_ATTEMPT_H_
#define ASSAY_TESTS_ADVERSARIAL_ATTEMPT_H_

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cheat.h"

/* Whether it was done. */
static int attempt(void);

static int launch(void* state, const assay_launch* l) {
  if (attempt()) {
    memset(l->output, 0, (size_t)((problem*)state)->bytes_out);
  } else {
    gemm_all(state, l);
  }
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
