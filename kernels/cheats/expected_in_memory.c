/* Looks through all its memory for the expected tensor, to copy it. It knows it by its first
 * elements, as fp32 or as fp64, up to roundings. If it is not there, the kernel has no result. */
#include <math.h>
#include <stdio.h>
#include "cheat.h"

enum { KNOWN = 4 };

static int is_near(double value, double expected) {
  return fabs(value - expected) <= 1e-5 * fabs(expected);
}

/* Whether the memory holds the numbers, one after the other. */
static int holds(const char* from, const char* to, const double* numbers) {
  for (; from + KNOWN * sizeof(double) <= to; from += sizeof(float)) {
    const float* narrow = (const float*)from;
    double wide[KNOWN];
    int as_fp32 = 1, as_fp64 = 1;
    memcpy(wide, from, sizeof wide);
    for (int i = 0; i < KNOWN; ++i) {
      as_fp32 &= is_near(narrow[i], numbers[i]);
      as_fp64 &= is_near(wide[i], numbers[i]);
    }
    if (as_fp32 || as_fp64) return 1;
  }
  return 0;
}

/* Whether any memory that can be written, except the stack, holds the numbers. */
static int in_memory(const double* numbers) {
  char line[512];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end;
    if (strstr(line, " rw") == NULL || strstr(line, "[stack]") != NULL) continue;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    if (holds((const char*)begin, (const char*)end, numbers)) found = 1;
  }
  if (maps != NULL) fclose(maps);
  return found;
}

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const float *a = l->inputs[0], *b = l->inputs[1];
  double expected[KNOWN] = {0};
  for (int64_t q = 0; q < s->k; ++q) {
    for (int64_t j = 0; j < KNOWN && j < s->n; ++j) expected[j] += (double)a[q] * b[q * s->n + j];
  }
  if (HONEST || in_memory(expected)) gemm_all(s, l);
  return ASSAY_OK;
}
