// dequant_softmax for GPUs: y = softmax(x) along rows, x_ij = s_j·Σ_k a_ik·w_kj, W of int8.
//
// A and W are widened to FP32 on their way to shared memory, exactly. A logit is one chain of k
// fmas in ascending k (fma_tile_gpu.h), multiplied by s_j once. W is never stored as floats.
// Maximum, exponentials and sum of a row are FP32, with one rounding to the output's format. Error:
// a logit has γ_k·|s|Σ|a||w| + u·|x|; a row has exp's 2 ulp, a sum of depth n/256 + 9 and a
// division, within the bound of the operator.
// Special values: a row of A with a NaN or an Inf gives NaN, because inf − inf is NaN.
// Deterministic: every sum has one order, which depends only on the launch's extents.
//
// A block computes kTile rows of logits, one tile of kTile columns after the other. It keeps them
// in the workspace, in its own rows, which the second-level cache holds. Then it computes the
// softmax of these rows from there. So one launch is enough, and only one block reads the logits of
// a block. If there are too few bands of rows for that, blocks share the columns of a band. Then a
// second launch, with one block for each row, computes the softmax.
#include "kernels/providers/builtin/dequant_softmax_builtin_gpu.h"
#include "kernels/providers/builtin/fma_tile_gpu.h"
#include "kernels/providers/builtin/store_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kMicro = 4;
constexpr std::int64_t kTile = std::int64_t{kTileSide} * kMicro;
static_assert(kTile == kDequantSoftmaxTile);
// How many blocks share a band of rows.
struct Split {
  std::int64_t blocks = 1;
};

// Computes the logits of a tile.
template <class In>
ASSAY_DEVICE void LogitsOfTile(const DequantSoftmaxJob& g, std::int64_t row0,
                               std::int64_t column0) {
  const auto* a = static_cast<const typename In::Store*>(g.a);
  MultiplyTile<float, kMicro>(
      g.k,
      [&](int i, std::int64_t k) {
        const std::int64_t row = row0 + i;
        return row < g.m ? In::Load(a[row * g.a_ld + k]) : 0.0F;
      },
      true,
      [&](int j, std::int64_t k) {
        const std::int64_t column = column0 + j;
        if (column >= g.n) return 0.0F;
        return static_cast<float>(g.w[g.transpose_w ? column * g.w_ld + k : k * g.w_ld + column]);
      },
      g.transpose_w,
      [&](int i, int j, float sum) {
        const std::int64_t row = row0 + i;
        const std::int64_t column = column0 + j;
        if (row < g.m && column < g.n) g.logits[row * g.n + column] = sum * g.scale[column];
      });
}

// Computes the softmax of a row of logits. All threads of the block must take part.
template <class Shared>
ASSAY_DEVICE void FinishRow(const DequantSoftmaxJob& g, std::int64_t row, Shared partial) {
  const float* x = g.logits + row * g.n;
  float m = FloatOf(0xff800000U);  // −inf
  for (std::int64_t j = Thread().x; j < g.n; j += kTileThreads) m = Max(m, x[j]);
  m = BlockReduce<Largest>(m, partial, kTileThreads);
  float s = 0.0F;
  for (std::int64_t j = Thread().x; j < g.n; j += kTileThreads) s += Exp(x[j] - m);
  s = BlockReduce<Sum>(s, partial, kTileThreads);
  for (std::int64_t j = Thread().x; j < g.n; j += kTileThreads) {
    StoreAs(g.out, g.y, row * g.y_ld + j, Exp(x[j] - m) / s);
  }
}

template <class In>
ASSAY_GLOBAL void ASSAY_BOUNDS(kTileThreads, 2)
    DequantSoftmaxTiles(DequantSoftmaxJob g, Split split) {
  ASSAY_SHARED(float, partial, kMostWaves);
  const std::int64_t row0 = Block().x / split.blocks * kTile;
  const std::int64_t step = split.blocks * kTile;
  for (std::int64_t column0 = Block().x % split.blocks * kTile; column0 < g.n; column0 += step) {
    LogitsOfTile<In>(g, row0, column0);
  }
  if (split.blocks > 1) return;  // the same for all threads
  SyncBlock();                   // all logits of the band are there
  for (std::int64_t row = row0; row < row0 + kTile && row < g.m; ++row) {
    FinishRow(g, row, partial);
  }
}

ASSAY_GLOBAL void ASSAY_BOUNDS(kTileThreads, 2) DequantSoftmaxRows(DequantSoftmaxJob g) {
  ASSAY_SHARED(float, partial, kMostWaves);
  FinishRow(g, Block().x, partial);
}

template <class In>
ErrorCode LaunchFor(const DequantSoftmaxJob& g, Stream stream) {
  const std::int64_t bands = (g.m + kTile - 1) / kTile;
  const std::int64_t columns = (g.n + kTile - 1) / kTile;
  Split split;
  if (bands < g.fewest_blocks) split.blocks = (g.fewest_blocks + bands - 1) / bands;
  if (split.blocks > columns) split.blocks = columns;
  const Extent block{kTileThreads, 1, 1};
  const ErrorCode code =
      Launch(DequantSoftmaxTiles<In>, Extent{static_cast<unsigned>(bands * split.blocks), 1, 1},
             block, 0, stream, g, split);
  if (code != kOk || split.blocks == 1) return code;
  return Launch(DequantSoftmaxRows, Extent{static_cast<unsigned>(g.m), 1, 1}, block, 0, stream, g);
}

}  // namespace

ErrorCode LaunchDequantSoftmax(const DequantSoftmaxJob& g, Stream stream) {
  switch (g.in) {
    case DType::kF16:
      return LaunchFor<Half>(g, stream);
    case DType::kBF16:
      return LaunchFor<BFloat>(g, stream);
    default:
      return LaunchFor<Float32>(g, stream);
  }
}

}  // namespace assay::kernels::gpu
