// The reference of a copy on a GPU: the input itself, as FP64, which holds the values of
// every format.
#ifndef ASSAY_KERNELS_OPS_COPY_COPY_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_COPY_COPY_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Pointers are in device memory.
struct CopyReference {
  const void* x = nullptr;
  DType input = DType::kUnspecified;
  std::int64_t count = 0;
  double* value = nullptr;  // [count]
};

// Enqueues one launch.
ErrorCode LaunchCopyReference(const CopyReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_COPY_COPY_REFERENCE_GPU_H_
