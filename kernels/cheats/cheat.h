/* What the kernels of this folder share: the description of a kernel, and a plain fp32 gemm. A
 * kernel that includes this file and defines `launch` is honest but for what its launch does.
 *
 * Each source makes two libraries. HONEST is 0 in the cheat and 1 in its honest twin. The twin has
 * all that the cheat has, but the trick. */
#ifndef ASSAY_KERNELS_CHEATS_CHEAT_H_
#define ASSAY_KERNELS_CHEATS_CHEAT_H_

#include <assay/kernel.h>
#include <stdlib.h>
#include <string.h>

#ifndef HONEST
#define HONEST 0
#endif

typedef struct problem {
  int64_t m, n, k; /* gemm */
  int64_t bytes_a, bytes_b, bytes_out;
} problem;

static int64_t integer_of(const assay_problem* p, const char* name) {
  for (uint32_t i = 0; i < p->parameter_count; ++i) {
    if (strcmp(p->parameters[i]->name, name) == 0) return p->parameters[i]->integer;
  }
  return 0;
}

static int prepare(const assay_problem* p, void** state, uint64_t* workspace_bytes, char* message,
                   size_t message_bytes) {
  problem* s = malloc(sizeof *s);
  (void)workspace_bytes, (void)message, (void)message_bytes;
  if (s == NULL) return ASSAY_NO_MEMORY;
  s->m = integer_of(p, "m");
  s->n = integer_of(p, "n");
  s->k = integer_of(p, "k");
  s->bytes_a = p->inputs[0]->bytes;
  s->bytes_b = p->input_count > 1 ? p->inputs[1]->bytes : 0;
  s->bytes_out = p->output->bytes;
  *state = s;
  return ASSAY_OK;
}

static void destroy(void* state) { free(state); }

/* d = a·b, row-major, tight. */
static void gemm_rows(const problem* s, const assay_launch* l, int64_t from, int64_t to) {
  const float* a = l->inputs[0];
  const float* b = l->inputs[1];
  float* d = l->output;
  for (int64_t i = from; i < to; ++i) {
    float* row = d + i * s->n;
    for (int64_t j = 0; j < s->n; ++j) row[j] = 0;
    for (int64_t q = 0; q < s->k; ++q) {
      const float x = a[i * s->k + q];
      for (int64_t j = 0; j < s->n; ++j) row[j] += x * b[q * s->n + j];
    }
  }
}

static inline void gemm_all(const problem* s, const assay_launch* l) { gemm_rows(s, l, 0, s->m); }

static int launch(void* state, const assay_launch* l);

/* How many launches a cheat waits for its chance. Each timed case has more. */
enum { PATIENCE = 16 };

/* A kernel with another description defines these first. */
#ifndef DESCRIBED_VERSION
#define DESCRIBED_VERSION ASSAY_KERNEL_ABI_VERSION
#endif
#ifndef DESCRIBED_SIZE
#define DESCRIBED_SIZE sizeof(assay_kernel)
#endif
#ifndef DESCRIBED_OP
#define DESCRIBED_OP "gemm"
#endif
#ifndef DESCRIBED_PREPARE
#define DESCRIBED_PREPARE prepare
#endif
#ifndef DESCRIBED_LAUNCH
#define DESCRIBED_LAUNCH launch
#endif

static int own_prepare(const assay_problem* p, void** state, uint64_t* workspace_bytes,
                       char* message, size_t message_bytes);

const assay_kernel* assay_kernel_v1(void) {
  static const assay_kernel kernel = {DESCRIBED_SIZE, DESCRIBED_VERSION, "adversarial",
                                      DESCRIBED_OP,   DESCRIBED_PREPARE, DESCRIBED_LAUNCH,
                                      destroy};
  return &kernel;
}

#endif
