// The right output of a dequant_softmax and its allowance, for GPUs, in FP64: Σ a·w and
// Σ|a||w| of every logit in one pass (kernels/ops/common/product_gpu.h), a block a tile, then
// a block a row, as FinishDequantSoftmaxRow has it. The order of every sum is fixed by the
// launch.
//
// The deviations, if they are asked for, come from the same passes. σ of an element stands where
// σ_x of its logit does until the row's sum is known: 8 bytes an element are written and 4 read for
// it.
#include <cmath>

#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/product_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/common/softmax_deviation_gpu.h"
#include "kernels/ops/common/sum_orders_gpu.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_DEVICE std::int64_t Tiles(std::int64_t extent) {
  return (extent + kProductTile - 1) / kProductTile;
}

template <class Element, bool kAbsolute>
ASSAY_GLOBAL void ASSAY_BOUNDS(kProductThreads, 2) LogitTiles(DequantSoftmaxReference g) {
  ASSAY_SHARED(double, a_tile, kProductShared);
  ASSAY_SHARED(double, w_tile, kProductShared);
  const std::int64_t col_tiles = Tiles(g.n);
  const StridedRows<Element> a = {g.a, g.input, 0, g.a_ld, 1, true};
  const StridedRows<PlainElement<std::int8_t>> w = {
      g.w, DType::kI8, 0, g.transpose_w ? g.w_ld : 1, g.transpose_w ? 1 : g.w_ld, g.transpose_w};
  int no_gaps = 0;
  for (std::int64_t t = Block().x; t < Tiles(g.m) * col_tiles; t += GridExtent().x) {
    const std::int64_t row0 = t / col_tiles * kProductTile;
    const std::int64_t col0 = t % col_tiles * kProductTile;
    ProductSums<kAbsolute> sums;
    ProductOfTile(a, row0, g.m, w, col0, g.n, g.k, a_tile, w_tile, no_gaps, sums);
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      ASSAY_UNROLL
      for (int j = 0; j < kProductEach; ++j) {
        const std::int64_t row = row0 + sums.Row(i), col = col0 + sums.Col(j);
        if (row >= g.m || col >= g.n) continue;
        g.value[row * g.n + col] = sums.sum[i][j];
        if constexpr (kAbsolute) g.allowance[row * g.n + col] = sums.absolute[i][j];
      }
    }
  }
}

template <bool kDeviations>
ASSAY_GLOBAL void LogitRows(DequantSoftmaxReference g) {
  ASSAY_SHARED(double, partial, kMostWaves);
  ASSAY_SHARED(float, addends, kDeviations ? kOrderShared : 1);
  for (std::int64_t row = Block().x; row < g.m; row += GridExtent().x) {
    double* value = g.value + row * g.n;
    double* allowance = g.allowance == nullptr ? nullptr : g.allowance + row * g.n;
    const RowDeviations to = g.deviations.OfRow(row, g.n);
    double max = -HUGE_VAL;
    for (std::int64_t j = Thread().x; j < g.n; j += kRowThreads) {
      const double x = value[j] * LoadDouble(DType::kF32, g.scale, j);
      value[j] = x;
      max = x > max ? x : max;  // a NaN spreads through the sum
    }
    max = BlockReduce<Largest>(max, partial, kRowThreads);
    double sum = 0.0, shift = 0.0;
    for (std::int64_t j = Thread().x; j < g.n; j += kRowThreads) {
      sum += Exp(value[j] - max);
      if (allowance == nullptr) continue;
      const double scale = LoadDouble(DType::kF32, g.scale, j);
      if constexpr (kDeviations) {
        to.deviation[j] =
            static_cast<float>(std::sqrt(g.model.LogitVariance(value[j], scale, allowance[j])));
      }
      allowance[j] = g.bound.LogitError(value[j], scale, allowance[j]);
      shift += g.bound.Share(value[j], max, allowance[j]);
    }
    sum = BlockReduce<Sum>(sum, partial, kRowThreads);
    shift = BlockReduce<Sum>(shift, partial, kRowThreads) / sum;
    const double log_sum = std::log(sum), unit = g.bound.arithmetic.u * sum;
    double lost = 0.0, seen = 0.0;
    const auto addend = [&](std::int64_t j) {
      const double p = Exp(value[j] - max);
      lost += LostAddend(p, unit);
      return p;
    };
    if constexpr (kDeviations) {
      seen = SumInOrders(g.n, addend, addends, partial).RelativeError();
    } else {
      for (std::int64_t j = Thread().x; allowance != nullptr && j < g.n; j += kRowThreads) {
        addend(j);
      }
    }
    lost = BlockReduce<Sum>(lost, partial, kRowThreads);
    const double roundings = g.bound.RowRoundings(sum, lost);
    SoftmaxRowSums sums;
    for (std::int64_t j = Thread().x; j < g.n; j += kRowThreads) {
      const double x = value[j];
      value[j] = Exp(x - max) / sum;
      if (allowance == nullptr) continue;
      allowance[j] = g.bound.Allowance(value[j], x, max, log_sum, allowance[j], shift, roundings);
      if constexpr (kDeviations) {
        const double of_logit = static_cast<double>(to.deviation[j]);
        to.deviation[j] =
            static_cast<float>(sums.Add(g.model.softmax, value[j], x, max, of_logit * of_logit));
      }
    }
    if constexpr (kDeviations) {
      FinishSoftmaxDeviations(g.model.softmax, max, lost / sum, seen, sums, partial, to);
    }
  }
}

}  // namespace

ErrorCode LaunchDequantSoftmaxReference(const DequantSoftmaxReference& g, Stream stream) {
  const std::int64_t tiles =
      ((g.m + kProductTile - 1) / kProductTile) * ((g.n + kProductTile - 1) / kProductTile);
  const ErrorCode code = ForElement(g.input, [&](auto element) {
    using Element = decltype(element);
    const Extent block{kProductThreads, 1, 1};
    return g.allowance == nullptr
               ? Launch(LogitTiles<Element, false>, RowGrid(tiles), block, 0, stream, g)
               : Launch(LogitTiles<Element, true>, RowGrid(tiles), block, 0, stream, g);
  });
  if (code != kOk) return code;
  return Launch(g.deviations.deviation == nullptr ? LogitRows<false> : LogitRows<true>,
                RowGrid(g.m), Extent{kRowThreads, 1, 1}, 0, stream, g);
}

}  // namespace assay::kernels::gpu
