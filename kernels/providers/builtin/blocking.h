// Cuts a matrix product into tiles of the output, and computes the workspace of a worker. The gemm,
// conv and attention kernels share it.
//
// One worker computes a whole tile, along k in one order. So results do not depend on the number of
// workers. Pure functions; any thread may call them.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_BLOCKING_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_BLOCKING_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels::internal {

// With a block of k of this length, a panel of packed B (kBlockK x 32 floats) stays in L1. The
// length is in units: an element, or a pair of int8.
inline constexpr std::int64_t kBlockK = 256;
// The row pitch of packed A [units]. The odd number of cache lines keeps rows out of one L1 set.
inline constexpr std::int64_t kPitchA = kBlockK + 16;
// The largest tile. With packed A and B it fills about 3/4 MiB of L2 in fp32. The row and column
// steps are multiples of every target's micro-kernel.
inline constexpr std::int64_t kMaxTileRows = 240;
inline constexpr std::int64_t kMaxTileCols = 256;
inline constexpr std::int64_t kRowStep = 12;
inline constexpr std::int64_t kColStep = 32;
// Fewer multiplications are not worth a second thread, which takes some 2 µs to wake.
inline constexpr double kGrainProducts = 524288;

constexpr std::int64_t RoundUp(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}
constexpr std::int64_t CeilDiv(std::int64_t n, std::int64_t d) { return (n + d - 1) / d; }

struct Blocking {
  std::int64_t tile_rows = 0;  // multiple of kRowStep
  std::int64_t tile_cols = 0;  // multiple of kColStep
  std::int64_t tiles_m = 0;
  std::int64_t tiles_n = 0;
  std::int64_t products = 0;  // independent products: batches, groups
  std::int64_t workers = 0;

  std::int64_t tiles() const { return tiles_m * tiles_n * products; }
};

// Chooses tiles for `products` products of m x n x k: as large as fits into L2, and so many that
// every worker gets several.
inline Blocking ChooseBlocking(std::int64_t m, std::int64_t n, std::int64_t k,
                               std::int64_t products) {
  Blocking b;
  b.products = products;
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
                      static_cast<double>(products);
  const auto useful = static_cast<std::int64_t>(std::min(work / kGrainProducts, 65536.0));
  b.workers = std::max<std::int64_t>(1, std::min<std::int64_t>(ParallelWidth(), useful));
  b.tiles_m = CeilDiv(m, kMaxTileRows);
  b.tiles_n = CeilDiv(n, kMaxTileCols);
  for (;;) {
    // The tiles have even sizes, so that the last one is not a sliver.
    b.tile_rows = RoundUp(CeilDiv(m, b.tiles_m), kRowStep);
    b.tile_cols = RoundUp(CeilDiv(n, b.tiles_n), kColStep);
    b.tiles_m = CeilDiv(m, b.tile_rows);
    b.tiles_n = CeilDiv(n, b.tile_cols);
    if (b.workers == 1 || b.tiles() >= 3 * b.workers) break;
    if (b.tile_cols >= b.tile_rows && b.tile_cols > 2 * kColStep) {
      b.tiles_n *= 2;
    } else if (b.tile_rows > 2 * kRowStep) {
      b.tiles_m *= 2;
    } else {
      break;
    }
  }
  b.workers = std::min(b.workers, b.tiles());
  return b;
}

// The bytes of a worker's memory, a multiple of 256: packed A, packed B, the accumulator tile, and
// a row that is being converted.
inline std::int64_t WorkspaceBytes(const Blocking& b, std::int64_t unit_bytes) {
  const std::int64_t units =
      b.tile_rows * kPitchA + kBlockK * b.tile_cols + b.tile_rows * b.tile_cols + 4 * kBlockK;
  return RoundUp(units * unit_bytes, 256);
}

// Calls body(tile, worker) for every tile. Workers take tiles as they become free.
inline void ForEachTile(std::int64_t tiles, std::int64_t workers,
                        absl::FunctionRef<void(std::int64_t tile, std::int64_t worker)> body) {
  std::atomic<std::int64_t> next{0};
  ParallelFor(workers, 1, [&](std::int64_t begin, std::int64_t end) {
    // If there are fewer threads than workers, the first worker of a thread takes all tiles.
    for (std::int64_t worker = begin; worker < end; ++worker) {
      for (std::int64_t tile; (tile = next.fetch_add(1, std::memory_order_relaxed)) < tiles;) {
        body(tile, worker);
      }
    }
  });
}

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_BLOCKING_H_
