// Launches with a block a row, as the GPU references of row operators have them. For
// kernels only.
#ifndef ASSAY_KERNELS_OPS_COMMON_ROWS_GPU_H_
#define ASSAY_KERNELS_OPS_COMMON_ROWS_GPU_H_

#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

inline constexpr int kRowThreads = 256;

// Blocks of a launch over `count` rows or tiles, which a block takes in strides of the grid.
inline Extent RowGrid(std::int64_t count) {
  constexpr std::int64_t kMostBlocks = 0x7fffffff;
  return Extent{static_cast<unsigned>(count < kMostBlocks ? count : kMostBlocks), 1, 1};
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_COMMON_ROWS_GPU_H_
