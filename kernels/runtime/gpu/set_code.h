// Sets every element of a tensor to one code, for poison and for patterns of one value.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_SET_CODE_H_
#define ASSAY_KERNELS_RUNTIME_GPU_SET_CODE_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels::gpu {

// `code` has the form of kernels/numerics/convert.h. Padding does not change.
ErrorCode LaunchSetCode(std::uint64_t code, const TensorView& dst, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_SET_CODE_H_
