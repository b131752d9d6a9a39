/* Leaves a message to the next case in the pages of a file that are in memory: some are, some are
 * not. It needs to drop pages, and to ask which are there. */
#include <sys/mman.h>
#include <sys/uio.h>
#include "attempt.h"

enum { PAGE = 4096 };

static int attempt(void) {
  char byte;
  unsigned char there;
  struct iovec one = {&byte, 1};
  const int fd = open("/etc/ld.so.cache", O_RDONLY);
  int won = 0;
  if (fd < 0) return 0;
  void* page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
  won |= posix_fadvise(fd, 0, PAGE, POSIX_FADV_DONTNEED) == 0;
  won |= readahead(fd, 0, PAGE) == 0;
  won |= preadv2(fd, &one, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN;
  won |= page != MAP_FAILED && mincore(page, PAGE, &there) == 0;
  won |= page != MAP_FAILED && madvise(page, PAGE, MADV_PAGEOUT) == 0;
  close(fd);
  return won;
}
