#include "kernels/ops/dequant_softmax/dequant_softmax_reference_cpu.h"

#include <algorithm>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {

void DequantSoftmaxReferenceCpu(const DequantSoftmaxProblem& problem,
                                const DequantSoftmaxBound& bound,
                                std::span<const TensorView> inputs, double* value,
                                double* allowance, const DequantSoftmaxDeviation& deviation,
                                const ReferenceBuffers& deviations) {
  const std::int64_t m = problem.m, n = problem.n;
  const TensorView &a = inputs[0], &w = inputs[1], &s = inputs[2];
  const StridedSource rows(a.dtype, a.data, 0, a.extents.ld, 1);
  const StridedSource columns(w.dtype, w.data, 0, problem.transpose_w ? w.extents.ld : 1,
                              problem.transpose_w ? 1 : w.extents.ld);
  const std::int64_t col_tiles = (n + kTileCols - 1) / kTileCols;
  const std::int64_t height = TileHeight(m, col_tiles);
  const std::int64_t row_tiles = (m + height - 1) / height;
  ParallelForDynamic(row_tiles * col_tiles, [&](std::int64_t t) {
    const std::int64_t row0 = t / col_tiles * height, col0 = t % col_tiles * kTileCols;
    const ProductTile tile = {row0, std::min(height, m - row0), col0,
                              std::min(kTileCols, n - col0)};
    const std::int64_t at = row0 * n + col0;
    PackedProduct(rows, columns, problem.k, tile, value + at,
                  allowance == nullptr ? nullptr : allowance + at, n);
  });

  std::vector<double> scale(static_cast<std::size_t>(n));
  LoadDoubles(s.dtype, s.data, 0, n, scale.data());
  constexpr std::int64_t kGrain = 1 << 12;  // elements
  ParallelFor(m, std::max<std::int64_t>(1, kGrain / n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      FinishDequantSoftmaxRow(bound, n, scale.data(), value + row * n,
                              allowance == nullptr ? nullptr : allowance + row * n, deviation,
                              RowOf(deviations, row, n));
    }
  });
}

}  // namespace assay::kernels
