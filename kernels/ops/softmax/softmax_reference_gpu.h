// The softmax reference on a GPU; the formula is in softmax_reference.h. Held to
// SoftmaxReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/common/row_fit.h"
#include "kernels/ops/common/softmax_deviation.h"
#include "kernels/ops/softmax/softmax_bound.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Pointers are in device memory.
struct SoftmaxReference {
  const void* x = nullptr;
  DType input = DType::kUnspecified;
  std::int64_t rows = 0, cols = 0;
  std::int64_t x_ld = 0;  // [elements]
  SoftmaxTerms terms;
  double* value = nullptr;      // [rows, cols]
  double* allowance = nullptr;  // the same
  SoftmaxDeviation model;
  RowDeviations deviations;  // of the first row; no deviation: nobody asks for them
};

// Enqueues one launch.
ErrorCode LaunchSoftmaxReference(const SoftmaxReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_GPU_H_
