// Factories of the built-in GPU kernels of reduce, elementwise and rope. Toolkit-free.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_ELEMENTS_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_ELEMENTS_GPU_H_

#include <memory>

#include "kernels/providers/provider.h"

namespace assay::inline kernels::internal {

absl::StatusOr<std::unique_ptr<Kernel>> MakeReduceGpu(const Case& c, const Plan& plan,
                                                      Device& device);
absl::StatusOr<std::unique_ptr<Kernel>> MakeElementwiseGpu(const Case& c, const Plan& plan,
                                                           Device& device);
absl::StatusOr<std::unique_ptr<Kernel>> MakeRopeGpu(const Case& c, const Plan& plan,
                                                    Device& device);

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_ELEMENTS_GPU_H_
