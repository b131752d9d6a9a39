// The dequant_softmax reference on a GPU; the formula is in dequant_softmax_reference.h.
// Held to DequantSoftmaxReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/common/row_fit.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_bound.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_deviation.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Pointers are in device memory.
struct DequantSoftmaxReference {
  const void* a = nullptr;
  const void* w = nullptr;      // int8
  const void* scale = nullptr;  // [n], fp32
  DType input = DType::kUnspecified;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_ld = 0, w_ld = 0;  // [elements]
  bool transpose_w = false;
  DequantSoftmaxBound bound;
  double* value = nullptr;      // [m, n]
  double* allowance = nullptr;  // the same, or nullptr: only values
  DequantSoftmaxDeviation model;
  // Of the first row; no deviation: nobody asks for them. They need the allowance.
  RowDeviations deviations;
};

// Enqueues two launches.
ErrorCode LaunchDequantSoftmaxReference(const DequantSoftmaxReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_GPU_H_
