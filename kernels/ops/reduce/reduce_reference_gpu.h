// The reference of a reduction on a GPU; the formulas are in reduce_reference.h. Held to
// ReduceReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/reduce/reduce_bound.h"
#include "kernels/ops/reduce/reduce_shape.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Pointers are in device memory.
struct ReduceReference {
  const void* x = nullptr;
  DType input = DType::kUnspecified;
  ReduceShape shape;
  ReduceKind kind = ReduceKind::kSum;
  std::int64_t ld = 0;            // of x [elements]
  std::int64_t batch_stride = 0;  // of x [elements]; where inner > 1
  ProductBound bound;
  const std::int32_t* output = nullptr;  // [outer, inner], of an argmax of any tie; else nullptr
  double* value = nullptr;               // [outer, inner]
  double* allowance = nullptr;           // the same; nullptr: nothing rounds
};

// Enqueues one launch.
ErrorCode LaunchReduceReference(const ReduceReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_GPU_H_
