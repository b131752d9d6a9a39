/* Prints for ever so long, and is honest otherwise. */
#include <stdio.h>
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  for (int i = 0; i < 20000; ++i) puts("a line that nobody reads, again and again and again");
  fflush(stdout);
  gemm_all(state, l);
  return ASSAY_OK;
}
