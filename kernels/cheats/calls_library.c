/* Passes the product of a library off as its own: Fortran's sgemm, which each library of this kind
 * has. It is right, so the judge cannot call it wrong. The result names the library. */
#include <dlfcn.h>
#include "cheat.h"

typedef void sgemm_function(const char* trans_a, const char* trans_b, const int* m, const int* n,
                            const int* k, const float* alpha, const float* a, const int* lda,
                            const float* b, const int* ldb, const float* beta, float* c,
                            const int* ldc);

static sgemm_function* find(void) {
  static const char* const names[] = {"libopenblas.so.0", "libblas.so.3", "libmkl_rt.so.2",
                                      "libmkl_rt.so.1", "libflexiblas.so.3"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    void* const library = dlopen(names[i], RTLD_NOW);
    if (library != NULL) return (sgemm_function*)dlsym(library, "sgemm_");
  }
  return NULL;
}

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  const int m = (int)s->m, n = (int)s->n, k = (int)s->k;
  const float one = 1, zero = 0;
  if (HONEST) {
    gemm_all(state, l);
    return ASSAY_OK;
  }
  /* Fortran's matrices are column-major, so the operands change places. */
  sgemm_function* const sgemm = find();
  if (sgemm != NULL) {
    sgemm("N", "N", &n, &m, &k, &one, l->inputs[1], &n, l->inputs[0], &k, &zero, l->output, &n);
  }
  return ASSAY_OK;
}
