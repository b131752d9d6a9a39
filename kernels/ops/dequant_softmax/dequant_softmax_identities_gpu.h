// Checks on a GPU the identities that every dequant_softmax keeps (dequant_softmax_identities.h).
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_IDENTITIES_GPU_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_IDENTITIES_GPU_H_

#include "kernels/numerics/bound.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference_gpu.h"

namespace assay::inline kernels::gpu {

// What the rows show; device memory.
struct DequantSoftmaxFindings {
  unsigned long long rows = 0;          // without a NaN in the reference
  unsigned long long sums_broken = 0;   // rows
  unsigned long long first_sum = 0;     // the first of them; all ones: none
  unsigned long long out_of_range = 0;  // elements
  unsigned long long first_out_of_range = 0;
  double sum = 0;    // of the last row, where only one is looked at
  double bound = 0;  // how far it may be from 1
};

// `reference` as it was launched, its value and allowance filled.
struct DequantSoftmaxCheck {
  DequantSoftmaxReference reference;
  const void* y = nullptr;
  DType output = DType::kUnspecified;
  std::int64_t y_ld = 0;  // [elements]
  OutputRounding rounding;
  std::int64_t first_row = 0, rows = 0;  // that are looked at
  DequantSoftmaxFindings* findings = nullptr;
};

// Enqueues two launches.
ErrorCode LaunchDequantSoftmaxCheck(const DequantSoftmaxCheck& check, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_IDENTITIES_GPU_H_
