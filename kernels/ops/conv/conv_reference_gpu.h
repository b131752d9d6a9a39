// The convolution reference on a GPU; the formula is in conv_reference.h. Held to
// ConvReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/deviation.h"
#include "kernels/numerics/dtype.h"
#include "kernels/ops/common/arithmetic.h"
#include "kernels/ops/conv/conv_shape.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Largest count of terms behind an element that the kernel's index arithmetic takes.
inline constexpr std::int64_t kMostConvTerms = (std::int64_t{1} << 31) - 64;

// Dense operands in device memory.
struct ConvReference {
  ConvShape shape;
  const void* x = nullptr;
  const void* w = nullptr;
  DType input = DType::kUnspecified;
  ProductBound bound;
  double* value = nullptr;      // the output's logical order
  double* allowance = nullptr;  // the same, or nullptr: only values
  SumModel sums = {};           // of σ
  OutputSteps steps = {};       // of the output's format
  float* deviation = nullptr;   // σ, the same; nullptr: none. Needs the allowance
};

// Enqueues one launch. shape.terms() <= kMostConvTerms.
ErrorCode LaunchConvReference(const ConvReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_GPU_H_
