// Elements of any format as doubles or floats, in bulk.
#ifndef ASSAY_KERNELS_OPS_COMMON_LOAD_H_
#define ASSAY_KERNELS_OPS_COMMON_LOAD_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"

namespace assay::inline kernels {

// dst[i] = element begin + i of packed storage, i < count; exact. SIMD for fp64,
// fp32, tf32, fp16, bf16 and int8, a table for the 8- and 4-bit floats.
void LoadDoubles(DType dtype, const void* base, std::int64_t begin, std::int64_t count,
                 double* dst);

// The same as floats. fp64 and int32 are rounded; fp32 holds the values of every other format.
void LoadFloats(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst);

// The values of a format's codes by code: 256 of an 8-bit float, 16 of e2m1. nullptr
// for the others.
const double* ValuesOfCodes(DType dtype);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_LOAD_H_
