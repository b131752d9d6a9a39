/* Returns an error from launch. */
#include "common.h"

static int launch(void* state, const assay_launch* l) {
  (void)state, (void)l;
  return ASSAY_FAILED;
}
