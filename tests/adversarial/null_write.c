/* Writes to address 0. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  (void)state, (void)l;
  *(volatile int*)0 = 1;
  return ASSAY_OK;
}
