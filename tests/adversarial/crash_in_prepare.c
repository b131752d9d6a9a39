/* Dies before the first launch. */
#define launch unused_launch
#define prepare honest_prepare
#define assay_kernel_v1 unused_kernel
#include "common.h"
#undef launch
#undef prepare
#undef assay_kernel_v1

static int unused_launch(void* state, const assay_launch* l) {
  gemm_all(state, l);
  return ASSAY_OK;
}

static int prepare(const assay_problem* p, void** state, uint64_t* bytes, char* m, size_t n) {
  honest_prepare(p, state, bytes, m, n);
  abort();
}

const assay_kernel* assay_kernel_v1(void) {
  static const assay_kernel kernel = {sizeof(assay_kernel), ASSAY_KERNEL_ABI_VERSION, "adversarial",
                                      "gemm", prepare, unused_launch, destroy};
  return &kernel;
}
