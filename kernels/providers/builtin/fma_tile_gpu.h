// Computes a tile of a matrix product on a GPU with plain multiply-adds, in the accumulator's type.
// It serves formats without matrix instructions, and operands that are gathered.
//
// A block of 256 threads, 16 by 16, computes 16·kMicro rows by 16·kMicro columns. Each thread has
// kMicro² elements in registers. kTileDepth terms of the operands are in shared memory at a time;
// the next terms are read while these are multiplied. Each element is one chain of fmas in
// ascending k. For kernels only.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_FMA_TILE_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_FMA_TILE_GPU_H_

#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

inline constexpr int kTileThreads = 256;
inline constexpr int kTileSide = 16;   // threads along each side
inline constexpr int kTileDepth = 16;  // terms held in shared memory

ASSAY_DEVICE std::int32_t MultiplyAdd(std::int32_t a, std::int32_t b, std::int32_t c) {
  return a * b + c;
}
ASSAY_DEVICE float MultiplyAdd(float a, float b, float c) { return Fma(a, b, c); }
ASSAY_DEVICE double MultiplyAdd(double a, double b, double c) { return Fma(a, b, c); }

// Reads kMicro consecutive values of shared memory, 16 bytes at a time.
template <class Acc, int kMicro, class Shared>
ASSAY_DEVICE void ReadValues(const Shared& from, int at, Acc* to) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(Acc));
  struct alignas(16) Values {
    Acc v[kPack];
  };
  ASSAY_UNROLL
  for (int i = 0; i < kMicro; i += kPack) {
    const Values values = *reinterpret_cast<const Values*>(&from[at + i]);
    ASSAY_UNROLL
    for (int j = 0; j < kPack; ++j) to[i + j] = values.v[j];
  }
}

// a(row, k) and b(column, k) return elements as Acc, and 0 outside the matrix; rows and columns
// count from the tile's. `depth` is the number of terms of a sum. a_along_k tells whether
// neighbours of A in memory are neighbours in k; b_along_k tells the same of B. done(row, column,
// acc) is called for every element of the tile.
template <class Acc, int kMicro, class A, class B, class Done>
ASSAY_DEVICE void MultiplyTile(std::int64_t depth, const A& a, bool a_along_k, const B& b,
                               bool b_along_k, const Done& done) {
  constexpr int kExtent = kTileSide * kMicro;
  constexpr int kPitch = kExtent + 16 / static_cast<int>(sizeof(Acc));
  constexpr int kLoads = kExtent * kTileDepth / kTileThreads;
  ASSAY_SHARED(Acc, a_tile, kTileDepth * kPitch);
  ASSAY_SHARED(Acc, b_tile, kTileDepth * kPitch);
  const int thread = static_cast<int>(Thread().x);
  const int row0 = thread / kTileSide * kMicro;
  const int column0 = thread % kTileSide * kMicro;
  // The element that a thread loads. Neighbouring threads load neighbours in memory.
  const auto outer = [&](bool along_k, int i) {
    const int e = thread + i * kTileThreads;
    return along_k ? e / kTileDepth : e % kExtent;
  };
  const auto inner = [&](bool along_k, int i) {
    const int e = thread + i * kTileThreads;
    return along_k ? e % kTileDepth : e / kExtent;
  };
  Acc a_next[kLoads];
  Acc b_next[kLoads];
  const auto read = [&](std::int64_t k0) {
    ASSAY_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t a_k = k0 + inner(a_along_k, i);
      const std::int64_t b_k = k0 + inner(b_along_k, i);
      a_next[i] = a_k < depth ? a(outer(a_along_k, i), a_k) : Acc{};
      b_next[i] = b_k < depth ? b(outer(b_along_k, i), b_k) : Acc{};
    }
  };

  Acc sums[kMicro][kMicro] = {};
  read(0);
  for (std::int64_t k0 = 0; k0 < depth; k0 += kTileDepth) {
    ASSAY_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      a_tile[inner(a_along_k, i) * kPitch + outer(a_along_k, i)] = a_next[i];
      b_tile[inner(b_along_k, i) * kPitch + outer(b_along_k, i)] = b_next[i];
    }
    SyncBlock();
    if (k0 + kTileDepth < depth) read(k0 + kTileDepth);
    ASSAY_UNROLL
    for (int k = 0; k < kTileDepth; ++k) {
      Acc left[kMicro];
      Acc right[kMicro];
      ReadValues<Acc, kMicro>(a_tile, k * kPitch + row0, left);
      ReadValues<Acc, kMicro>(b_tile, k * kPitch + column0, right);
      ASSAY_UNROLL
      for (int i = 0; i < kMicro; ++i) {
        ASSAY_UNROLL
        for (int j = 0; j < kMicro; ++j) sums[i][j] = MultiplyAdd(left[i], right[j], sums[i][j]);
      }
    }
    SyncBlock();  // the next terms are written over these
  }
  ASSAY_UNROLL
  for (int i = 0; i < kMicro; ++i) {
    ASSAY_UNROLL
    for (int j = 0; j < kMicro; ++j) done(row0 + i, column0 + j, sums[i][j]);
  }
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_FMA_TILE_GPU_H_
