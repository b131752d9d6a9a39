// The right output of a gemm and its allowance, for GPUs: S = Σ a·b and Σ |a||b| of an
// element in one FP64 pass (kernels/ops/common/product_gpu.h), then GemmEpilogue, which
// the host's references use too. One block a tile of the output.
#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/product_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/gemm/gemm_reference_gpu.h"

namespace assay::gpu {
namespace {

ASSAY_DEVICE std::int64_t Tiles(std::int64_t extent) {
  return (extent + kProductTile - 1) / kProductTile;
}

// One element, from its sums, which value and allowance hold.
ASSAY_DEVICE void Finish(const GemmReference& g, std::int64_t batch, std::int64_t row,
                         std::int64_t col) {
  double c0 = 0.0, scale = 1.0, bias = 0.0;
  if (g.c.data != nullptr) {
    c0 = LoadDouble(g.output, g.c.data, batch * g.c.batch_stride + row * g.c.row_stride + col);
  }
  if (g.channel_scale != nullptr) scale = LoadDouble(g.columns, g.channel_scale, col);
  if (g.bias != nullptr) bias = LoadDouble(g.columns, g.bias, col);
  const std::int64_t at = (batch * g.m + row) * g.n + col;
  const double sum = g.value[at];
  double r = g.epilogue.Value(sum, c0, scale, bias);
  if (g.largest > 0 && std::abs(r) > g.largest) r = r < 0 ? -g.largest : g.largest;
  g.value[at] = r;
  if (g.allowance != nullptr) {
    g.allowance[at] = g.epilogue.Allowance(sum, g.allowance[at], c0, scale, bias);
  }
}

template <class Element, bool kAbsolute>
ASSAY_GLOBAL void ASSAY_BOUNDS(kProductThreads, 2) GemmTiles(GemmReference g) {
  ASSAY_SHARED(double, a_tile, kProductShared);
  ASSAY_SHARED(double, b_tile, kProductShared);
  const std::int64_t col_tiles = Tiles(g.n), row_tiles = Tiles(g.m);
  int no_gaps = 0;
  for (std::int64_t t = Block().x; t < g.batch * row_tiles * col_tiles; t += GridExtent().x) {
    const std::int64_t batch = t / (row_tiles * col_tiles);
    const std::int64_t row0 = t / col_tiles % row_tiles * kProductTile;
    const std::int64_t col0 = t % col_tiles * kProductTile;
    const StridedRows<Element> a = {g.a.data,       g.input,         batch * g.a.batch_stride,
                                    g.a.row_stride, g.a.term_stride, g.a.term_stride == 1};
    const StridedRows<Element> b = {g.b.data,       g.input,         batch * g.b.batch_stride,
                                    g.b.row_stride, g.b.term_stride, g.b.term_stride == 1};
    ProductSums<kAbsolute> sums;
    ProductOfTile(a, row0, g.m, b, col0, g.n, g.k, a_tile, b_tile, no_gaps, sums);
    // Where the sums are kept until the thread that made them finishes them, one by one:
    // sixteen epilogues in a row would be all of the kernel's code.
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      ASSAY_UNROLL
      for (int j = 0; j < kProductEach; ++j) {
        const std::int64_t row = row0 + sums.Row(i), col = col0 + sums.Col(j);
        if (row >= g.m || col >= g.n) continue;
        const std::int64_t at = (batch * g.m + row) * g.n + col;
        g.value[at] = sums.sum[i][j];
        if constexpr (kAbsolute) g.allowance[at] = sums.absolute[i][j];
      }
    }
    ASSAY_UNROLL_BY(1)
    for (int e = 0; e < kProductEach * kProductEach; ++e) {
      const std::int64_t row = row0 + sums.Row(e / kProductEach);
      const std::int64_t col = col0 + sums.Col(e % kProductEach);
      if (row < g.m && col < g.n) Finish(g, batch, row, col);
    }
  }
}

}  // namespace

ErrorCode LaunchGemmReference(const GemmReference& g, Stream stream) {
  const std::int64_t tiles = g.batch * ((g.m + kProductTile - 1) / kProductTile) *
                             ((g.n + kProductTile - 1) / kProductTile);
  return ForElement(g.input, [&](auto element) {
    using Element = decltype(element);
    const Extent block{kProductThreads, 1, 1};
    return g.allowance == nullptr
               ? Launch(GemmTiles<Element, false>, RowGrid(tiles), block, 0, stream, g)
               : Launch(GemmTiles<Element, true>, RowGrid(tiles), block, 0, stream, g);
  });
}

}  // namespace assay::gpu
