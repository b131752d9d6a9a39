// The reference of a rotary embedding on a GPU; the formulas are in rope_reference.h. Held to
// RopeReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_ROPE_ROPE_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_ROPE_ROPE_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/rope/rope_bound.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Pointers are in device memory.
struct RopeReference {
  const void* x = nullptr;
  DType input = DType::kUnspecified;
  std::int64_t rows = 0, seq = 0, heads = 0, dim = 0;
  std::int64_t start = 0;
  std::int64_t x_ld = 0;  // [elements]
  bool interleaved = false;
  RopeTerms terms;
  double* value = nullptr;      // [rows, dim]
  double* allowance = nullptr;  // the same; nullptr: nothing rounds
};

// Enqueues one launch.
ErrorCode LaunchRopeReference(const RopeReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_ROPE_ROPE_REFERENCE_GPU_H_
