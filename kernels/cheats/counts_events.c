/* Counts what the machine does. */
#include <linux/perf_event.h>
#include "attempt.h"

static int attempt(void) {
  struct perf_event_attr p;
  memset(&p, 0, sizeof p);
  p.size = sizeof p;
  return syscall(SYS_perf_event_open, &p, 0, -1, -1, 0) >= 0;
}
