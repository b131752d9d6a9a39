// Every element of a tensor becomes one code: poison, and patterns of one value.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_SET_CODE_H_
#define ASSAY_KERNELS_RUNTIME_GPU_SET_CODE_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/tensor.h"

namespace assay::gpu {

// `code`: as kernels/numerics/convert.h carries it. Padding is left alone.
ErrorCode LaunchSetCode(std::uint64_t code, const TensorView& dst, Stream stream);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_SET_CODE_H_
