/* Never returns. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  (void)state, (void)l;
  for (volatile int i = 0; i >= 0; i ^= 1) {
  }
  return ASSAY_OK;
}
