// What a reduction computes and along which axis, on host and device. std-only.
#ifndef ASSAY_KERNELS_OPS_REDUCE_REDUCE_SHAPE_H_
#define ASSAY_KERNELS_OPS_REDUCE_REDUCE_SHAPE_H_

#include <cstdint>

namespace assay::inline kernels {

enum class ReduceKind : std::uint8_t { kSum, kMax, kArgmax };

// x as three axes [outer, length, inner], of which the one in the middle disappears.
struct ReduceShape {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_REDUCE_REDUCE_SHAPE_H_
