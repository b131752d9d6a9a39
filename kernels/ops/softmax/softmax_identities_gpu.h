// Checks on a GPU the identities that every softmax keeps (softmax_identities.h).
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_GPU_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_GPU_H_

#include "kernels/numerics/bound.h"
#include "kernels/ops/softmax/softmax_reference_gpu.h"

namespace assay::inline kernels::gpu {

// What the rows show; device memory.
struct SoftmaxFindings {
  unsigned long long rows = 0;          // without a NaN in the reference
  unsigned long long sums_broken = 0;   // rows
  unsigned long long first_sum = 0;     // the first of them; all ones: none
  unsigned long long out_of_range = 0;  // elements
  unsigned long long first_out_of_range = 0;
};

// `reference` as it was launched, its value and allowance filled.
struct SoftmaxCheck {
  SoftmaxReference reference;
  const void* y = nullptr;
  DType output = DType::kUnspecified;
  std::int64_t y_ld = 0;  // [elements]
  OutputRounding rounding;
  SoftmaxFindings* findings = nullptr;
};

// Enqueues two launches.
ErrorCode LaunchSoftmaxCheck(const SoftmaxCheck& check, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_GPU_H_
