/* Computes, and then writes random words over everything that it shares with the judge but the
 * operands. */
#include <stdint.h>
#include <stdio.h>
#include "cheat.h"

static int launch(void* state, const assay_launch* l) {
  char line[512];
  FILE* maps = fopen("/proc/self/maps", "r");
  gemm_all(state, l);
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end, offset;
    char rights[8];
    if (sscanf(line, "%lx-%lx %7s %lx", &begin, &end, rights, &offset) == 4 && rights[3] == 's' &&
        offset == 0) {
      for (uint32_t* word = (uint32_t*)begin; word < (uint32_t*)end; ++word) *word = 0xdeadbeef;
    }
  }
  if (maps != NULL) fclose(maps);
  return ASSAY_OK;
}
