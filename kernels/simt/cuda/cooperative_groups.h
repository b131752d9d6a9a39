// Cooperative groups for the emulator: the block, and tiles of a warp. Groups of blocks (the grid,
// a cluster) are not there, because blocks run one after the other.
#ifndef ASSAY_SIMT_COOPERATIVE_GROUPS_H_
#define ASSAY_SIMT_COOPERATIVE_GROUPS_H_

#include "cuda_runtime.h"

namespace cooperative_groups {

class thread_block {
 public:
  void sync(ASSAY_SIMT_WHERE) const { __syncthreads(where); }
  static unsigned thread_rank() {
    const uint3 t = threadIdx;
    const dim3 n = blockDim;
    return t.x + n.x * (t.y + n.y * t.z);
  }
  static unsigned num_threads() {
    const dim3 n = blockDim;
    return n.x * n.y * n.z;
  }
  static unsigned size() { return num_threads(); }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_index() { return blockIdx; }
  static dim3 dim_threads() { return blockDim; }
  static dim3 group_dim() { return blockDim; }
};

inline thread_block this_thread_block() { return {}; }

// kSize lanes of a warp that lie side by side.
template <unsigned kSize>
class thread_block_tile {
  static_assert(kSize >= 1 && kSize <= 32 && (kSize & (kSize - 1)) == 0,
                "a tile has 1, 2, 4, 8, 16 or 32 threads");

 public:
  static unsigned thread_rank() { return static_cast<unsigned>(assay_simt_lane()) % kSize; }
  static constexpr unsigned size() { return kSize; }
  static constexpr unsigned num_threads() { return kSize; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / kSize; }
  static unsigned meta_group_size() { return (thread_block::size() + kSize - 1) / kSize; }

  void sync(ASSAY_SIMT_WHERE) const { __syncwarp(mask(), where); }
  template <class T>
  T shfl(T value, int source, ASSAY_SIMT_WHERE) const {
    return __shfl_sync(mask(), value, source, kSize, where);
  }
  template <class T>
  T shfl_up(T value, unsigned by, ASSAY_SIMT_WHERE) const {
    return __shfl_up_sync(mask(), value, by, kSize, where);
  }
  template <class T>
  T shfl_down(T value, unsigned by, ASSAY_SIMT_WHERE) const {
    return __shfl_down_sync(mask(), value, by, kSize, where);
  }
  template <class T>
  T shfl_xor(T value, unsigned bits, ASSAY_SIMT_WHERE) const {
    return __shfl_xor_sync(mask(), value, static_cast<int>(bits), kSize, where);
  }
  int any(int predicate, ASSAY_SIMT_WHERE) const { return __any_sync(mask(), predicate, where); }
  int all(int predicate, ASSAY_SIMT_WHERE) const { return __all_sync(mask(), predicate, where); }
  unsigned ballot(int predicate, ASSAY_SIMT_WHERE) const {
    return __ballot_sync(mask(), predicate, where) >> begin();
  }

 private:
  static unsigned begin() { return static_cast<unsigned>(assay_simt_lane()) / kSize * kSize; }
  static unsigned mask() { return (0xffffffffU >> (32 - kSize)) << begin(); }
};

template <unsigned kSize, class Group>
thread_block_tile<kSize> tiled_partition(const Group&) {
  return {};
}

template <class Group>
void sync(const Group& group, ASSAY_SIMT_WHERE) {
  group.sync(where);
}

}  // namespace cooperative_groups

#endif  // ASSAY_SIMT_COOPERATIVE_GROUPS_H_
