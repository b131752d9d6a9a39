/* Returns an error from launch. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  (void)state, (void)l;
  return ASSAY_FAILED;
}
