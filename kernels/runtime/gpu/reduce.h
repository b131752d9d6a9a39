// Reduces values over a block: first a butterfly over each wave's lanes, then over the waves'
// results in shared memory. Every thread gets the result. Block size and wave width fix the order
// of a sum, so the same launch gives the same bits.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_REDUCE_H_
#define ASSAY_KERNELS_RUNTIME_GPU_REDUCE_H_

#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

inline constexpr int kMostWaves = 32;  // of a block: 1024 threads of 32 lanes

struct Sum {
  template <class T>
  static ASSAY_DEVICE_MEMBER T Of(T a, T b) {
    return a + b;
  }
};
struct Largest {  // a NaN wins
  template <class T>
  static ASSAY_DEVICE_MEMBER T Of(T a, T b) {
    return Max(a, b);
  }
};

struct Smallest {  // of integers
  template <class T>
  static ASSAY_DEVICE_MEMBER T Of(T a, T b) {
    return b < a ? b : a;
  }
};

template <class Op, class T>
ASSAY_DEVICE T WaveReduce(T v) {
  for (int by = WaveWidth() / 2; by > 0; by /= 2) v = Op::Of(v, ShuffleXor(v, by));
  return v;
}

// Reduces over a block of whole waves. `partial` has kMostWaves values of shared memory that no
// thread uses for anything else between two barriers.
template <class Op, class T, class Shared>
ASSAY_DEVICE T BlockReduce(T v, Shared partial, int threads) {
  const int wave = static_cast<int>(Thread().x) / WaveWidth();
  const int waves = threads / WaveWidth();
  v = WaveReduce<Op>(v);
  if (waves == 1) return v;
  if (Lane() == 0) partial[wave] = v;
  SyncBlock();
  v = partial[0];
  for (int w = 1; w < waves; ++w) v = Op::Of(v, partial[w]);
  SyncBlock();  // the next reduction writes `partial` again
  return v;
}

// The sum over a wave. Every lane gets it.
template <class T>
ASSAY_DEVICE T WaveSum(T v) {
  for (int by = WaveWidth() / 2; by > 0; by /= 2) v = v + ShuffleXor(v, by);
  return v;
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_REDUCE_H_
