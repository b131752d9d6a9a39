/* A gemm for fp32, in C: D = A·B, row-major, without transposes. */
#include <assay/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int64_t m, n, k, lda, ldb, ldd;
} shape;

static const assay_parameter* find(const assay_problem* problem, const char* name) {
  for (uint32_t i = 0; i < problem->parameter_count; ++i) {
    if (strcmp(problem->parameters[i]->name, name) == 0) return problem->parameters[i];
  }
  return NULL;
}

static int prepare(const assay_problem* problem, void** state, uint64_t* workspace_bytes,
                   char* message, size_t message_bytes) {
  const assay_tensor* a = problem->inputs[0];
  const assay_tensor* d = problem->output;
  const char* other = NULL;
  (void)workspace_bytes;
  if (a->dtype != ASSAY_F32 || d->dtype != ASSAY_F32) other = "only fp32 is done";
  if (problem->input_count != 2) other = "bias, C and scales are not done";
  if (find(problem, "trans_a")->integer || find(problem, "trans_b")->integer ||
      find(problem, "batch")->integer != 1 || find(problem, "alpha")->real != 1 ||
      find(problem, "scale_a")->real != 1 || find(problem, "scale_b")->real != 1 ||
      strcmp(find(problem, "activation")->text, "none") != 0) {
    other = "only the plain product of two matrices is done";
  }
  if (other != NULL) {
    snprintf(message, message_bytes, "%s", other);
    return ASSAY_UNSUPPORTED;
  }
  shape* s = malloc(sizeof *s);
  if (s == NULL) return ASSAY_NO_MEMORY;
  s->m = find(problem, "m")->integer;
  s->n = find(problem, "n")->integer;
  s->k = find(problem, "k")->integer;
  /* The last two axes are the rows and the columns. */
  s->lda = a->strides[a->rank - 2];
  s->ldb = problem->inputs[1]->strides[problem->inputs[1]->rank - 2];
  s->ldd = d->strides[d->rank - 2];
  *state = s;
  return ASSAY_OK;
}

static int launch(void* state, const assay_launch* launch) {
  const shape* s = state;
  const float* a = launch->inputs[0];
  const float* b = launch->inputs[1];
  float* d = launch->output;
  for (int64_t i = 0; i < s->m; ++i) {
    float* row = d + i * s->ldd;
    for (int64_t j = 0; j < s->n; ++j) row[j] = 0;
    for (int64_t q = 0; q < s->k; ++q) {
      const float x = a[i * s->lda + q];
      for (int64_t j = 0; j < s->n; ++j) row[j] += x * b[q * s->ldb + j];
    }
  }
  return ASSAY_OK;
}

const assay_kernel* assay_kernel_v1(void) {
  static const assay_kernel kernel = {
      .struct_size = sizeof(assay_kernel),
      .abi_version = ASSAY_KERNEL_ABI_VERSION,
      .name = "my_gemm",
      .op = "gemm",
      .prepare = prepare,
      .launch = launch,
      .destroy = free,
  };
  return &kernel;
}
