/* Ends by abort(). */
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  (void)state, (void)l;
  abort();
}
