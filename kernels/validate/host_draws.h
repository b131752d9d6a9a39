// Draws elements of an operand on the host, many at a time.
//
// The values are those of kernels/numerics/generate.h, bit by bit. The code is not that of a
// device's fill, which it is held against. If the processor has AVX2 and fused multiply-adds, the
// words are made in loops of a fixed length, which the compiler turns into vectors. Any thread may
// call it.
#ifndef ASSAY_KERNELS_VALIDATE_HOST_DRAWS_H_
#define ASSAY_KERNELS_VALIDATE_HOST_DRAWS_H_

#include <cstdint>

#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// Writes elements [begin, begin + count) of the operand that is filled as number `tensor`.
void DrawOnHost(const Operand& operand, std::uint64_t seed, std::uint32_t tensor,
                std::int64_t begin, std::int64_t count, double* out);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_HOST_DRAWS_H_
