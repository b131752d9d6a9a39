/* Recurses until its stack is used up. */
#include "cheat.h"

static int deep(volatile char* above) {
  volatile char room[65536];
  room[0] = above[0];
  return deep(room) + room[0];
}

static int launch(void* state, const assay_launch* l) {
  volatile char first = 1;
  (void)state, (void)l;
  return deep(&first);
}
