/* Ends its process while the library is loaded. */
#include <unistd.h>
#include "cheat.h"

__attribute__((constructor)) static void early(void) {
  if (!HONEST) _exit(0);
}

static int launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}
