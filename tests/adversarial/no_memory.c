/* Says that it got too little memory. */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  (void)state, (void)l;
  return ASSAY_NO_MEMORY;
}
