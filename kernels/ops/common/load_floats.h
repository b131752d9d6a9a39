// Elements of any format that fp32 holds exactly, as floats, in bulk.
#ifndef ASSAY_KERNELS_OPS_COMMON_LOAD_FLOATS_H_
#define ASSAY_KERNELS_OPS_COMMON_LOAD_FLOATS_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"

namespace assay {

// dst[i] = element begin + i of packed storage, i < count. fp64 and int32 are rounded.
void LoadFloats(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_LOAD_FLOATS_H_
