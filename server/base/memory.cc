#include "server/base/memory.h"

#include <malloc.h>

namespace assay {

void ReturnFreeMemory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace assay
