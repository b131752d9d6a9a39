/* Looks for the page through which the judge is told, says "done" there, and works on. It finds the
 * page in /proc/self/maps, as the one small shared mapping, and counts the answer up. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include "cheat.h"

static volatile uint32_t* control(void) {
  static volatile uint32_t* found;
  char line[512];
  FILE* maps = found == NULL ? fopen("/proc/self/maps", "r") : NULL;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end, offset;
    char rights[8];
    if (sscanf(line, "%lx-%lx %7s %lx", &begin, &end, rights, &offset) == 4 && rights[3] == 's' &&
        offset == 0) {
      found = (volatile uint32_t*)begin;
    }
  }
  if (maps != NULL) fclose(maps);
  return found;
}

static int launch(void* state, const assay_launch* l) {
  volatile uint32_t* page = control();
  if (!HONEST && page != NULL) {
    page[17] = 0;       /* the status: fine */
    page[16] = page[0]; /* done = asked */
  }
  usleep(30000);
  gemm_all(state, l);
  return ASSAY_OK;
}
