#include "server/base/memory.h"

#include <malloc.h>

namespace assay::server {

void ShareMemoryPools() {
#if defined(__GLIBC__)
  // NOLINTNEXTLINE(concurrency-mt-unsafe): programs call it before they have threads
  mallopt(M_ARENA_MAX, 2);
#endif
}

void ReturnFreeMemory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace assay::server
