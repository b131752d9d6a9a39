/* A kernel that does nothing, for runner_bench: what a launch costs beside the work. */
#include <assay/kernel.h>

int empty_launch(void* state, const assay_launch* launch) {
  (void)state;
  (void)launch;
  return ASSAY_OK;
}

const assay_kernel* assay_kernel_v1(void) {
  static const assay_kernel kernel = {
      .struct_size = sizeof(assay_kernel),
      .abi_version = ASSAY_KERNEL_ABI_VERSION,
      .name = "empty",
      .launch = empty_launch,
  };
  return &kernel;
}
