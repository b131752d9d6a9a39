/* Looks through all its memory for the expected tensor, to copy it. It knows it by its first
 * elements, as fp32 or as fp64. If it is not there, the kernel has no result. */
#include <stdio.h>
#include "cheat.h"

enum { KNOWN = 4 };

static int holds(const char* from, const char* to, const void* what, size_t bytes) {
  for (; from + bytes <= to; from += sizeof(float)) {
    if (memcmp(from, what, bytes) == 0) return 1;
  }
  return 0;
}

/* Whether any memory that can be written, except the stack, holds the numbers. */
static int in_memory(const float* numbers) {
  double wide[KNOWN];
  char line[512];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  for (int i = 0; i < KNOWN; ++i) wide[i] = (double)numbers[i];
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end;
    if (strstr(line, " rw") == NULL || strstr(line, "[stack]") != NULL) continue;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    const char *from = (const char*)begin, *to = (const char*)end;
    if (holds(from, to, numbers, KNOWN * sizeof *numbers) || holds(from, to, wide, sizeof wide)) {
      found = 1;
    }
  }
  if (maps != NULL) fclose(maps);
  return found;
}

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const float *a = l->inputs[0], *b = l->inputs[1];
  float expected[KNOWN] = {0};
  for (int64_t q = 0; q < s->k; ++q) {
    for (int64_t j = 0; j < KNOWN && j < s->n; ++j) expected[j] += a[q] * b[q * s->n + j];
  }
  if (HONEST || in_memory(expected)) gemm_all(s, l);
  return ASSAY_OK;
}
