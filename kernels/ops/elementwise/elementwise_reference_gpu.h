// The reference of an elementwise operator on a GPU; the formulas are in elementwise_reference.h.
// Held to ElementwiseReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/elementwise/elementwise_bound.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Pointers are in device memory.
struct ElementwiseReference {
  const void* a = nullptr;
  const void* b = nullptr;  // nullptr: the kind has none
  DType input = DType::kUnspecified;
  std::int64_t rows = 0, cols = 0;
  std::int64_t a_ld = 0;  // [elements]
  std::int64_t b_ld = 0;  // [elements]; 0: one row serves all
  ElementwiseTerms terms;
  double* value = nullptr;      // [rows, cols]
  double* allowance = nullptr;  // the same; nullptr: nothing rounds
};

// Enqueues one launch.
ErrorCode LaunchElementwiseReference(const ElementwiseReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_REFERENCE_GPU_H_
