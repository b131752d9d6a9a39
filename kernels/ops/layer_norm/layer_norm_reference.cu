// The right output of a layer or RMS norm and its allowance, for GPUs, in FP64. One block
// a row, which is read for the mean's origin (LayerNormOrigin), its mean, its variance and
// its elements; the order of every sum is fixed by the launch.
//
// The deviations, if they are asked for, come from the same passes and cost 4 bytes an element and
// 8 a row of writing: what usual orders make of the two sums (sum_orders_gpu.h) is looked at in the
// second and the third pass, κ too, and c and the fit in the last. Two kinds of rows are read once
// more: those of a layer norm with weight and bias, whose σ holds c, and those with heavy tails.
#include <cmath>

#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/common/sum_orders_gpu.h"
#include "kernels/ops/layer_norm/layer_norm_reference_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

// Writes σ_α and σ_β from each thread's part of the fit and from the row's moments.
template <class Partial>
ASSAY_DEVICE void FinishDeviations(const LayerNormDeviation& model, const LayerNormMoments& row,
                                   RowFit fit, Partial partial, const RowDeviations& to) {
  if (to.offset == nullptr || to.gain == nullptr) return;  // for all threads alike
  fit.weights = BlockReduce<Sum>(fit.weights, partial, kRowThreads);
  fit.reference = BlockReduce<Sum>(fit.reference, partial, kRowThreads);
  fit.squares = BlockReduce<Sum>(fit.squares, partial, kRowThreads);
  if (Thread().x != 0) return;
  *to.offset = static_cast<float>(model.Offset(row, fit));
  *to.gain = static_cast<float>(model.Gain(row, fit));
}

// What Welford's update makes of a row, relative to its Σd². Every thread gets it.
template <class Value, class Shared, class Partial>
ASSAY_DEVICE double WelfordError(std::int64_t n, const Value& x, double squares, Shared shared,
                                 Partial partial) {
  WelfordSum welford;
  VisitInOrder(n, x, shared, [&](int place, int count, std::int64_t before) {
    if (Thread().x != 0) return;
    for (int i = 0; i < count; ++i) welford.Add(shared[place + i], before + i + 1);
  });
  const double error = Thread().x == 0 ? welford.Error(squares) : 0.0;
  return BlockReduce<Largest>(error, partial, kRowThreads);
}

// Visits a row of n elements; the sums of what `addend` returns are made only for deviations.
template <bool kDeviations, class Addend, class Shared, class Partial>
ASSAY_DEVICE OrderedSums Visit(std::int64_t n, const Addend& addend, bool in_order, Shared addends,
                               Partial partial) {
  if constexpr (kDeviations) {
    if (in_order) return SumInOrders(n, addend, addends, partial);
  }
  for (std::int64_t j = Thread().x; j < n; j += kRowThreads) addend(j);
  return OrderedSums{};
}

// What the deviations need of a row beside c, from its Σd² and each thread's part of its Σd⁴.
template <class Value, class Shared, class Partial>
ASSAY_DEVICE LayerNormMoments MomentsOf(const LayerNormReference& l, const Value& x, double mean,
                                        double squares, double fourth, const OrderedSums& of_x,
                                        const OrderedSums& of_squares, Shared addends,
                                        Partial partial) {
  fourth = BlockReduce<Sum>(fourth, partial, kRowThreads);
  LayerNormMoments moments = l.model.Moments(x(0), mean, squares, fourth);
  moments.seen_mean = of_x.LargestError() / l.model.n;
  moments.seen_factor = of_squares.RelativeError();
  if (l.model.HasHeavyTails(moments)) {
    moments.seen_factor =
        Max(moments.seen_factor, WelfordError(l.cols, x, squares, addends, partial));
  }
  return moments;
}

// The row's first element if the others are near to it, else 0 (LayerNormOrigin). Every thread gets
// it.
template <class Value, class Partial>
ASSAY_DEVICE double OriginOf(const LayerNormReference& l, const Value& x, Partial partial) {
  const double first = x(0);
  double far = l.terms.rms || !std::isfinite(first) ? 1.0 : 0.0;
  for (std::int64_t j = Thread().x; j < l.cols; j += kRowThreads) {
    if (!NearFirst(x(j), first)) far = 1.0;
  }
  far = BlockReduce<Largest>(far, partial, kRowThreads);
  return far == 0.0 ? first : 0.0;
}

// Writes the row's values and allowances; `also` is called with each column, its weight and its
// bias.
template <class Value, class Also>
ASSAY_DEVICE void WriteRow(const LayerNormReference& l, std::int64_t row, const LayerNormRow& terms,
                           const Value& x, const Also& also) {
  for (std::int64_t j = Thread().x; j < l.cols; j += kRowThreads) {
    const double weight = l.weight == nullptr ? 1.0 : LoadDouble(l.columns, l.weight, j);
    const double bias = l.bias == nullptr ? 0.0 : LoadDouble(l.columns, l.bias, j);
    const LayerNormElement e = MakeLayerNormElement(l.terms, terms, x(j), weight, bias);
    l.value[row * l.cols + j] = e.value;
    l.allowance[row * l.cols + j] = e.allowance;
    also(j, weight, bias);
  }
}

template <class Element, bool kDeviations>
ASSAY_GLOBAL void ASSAY_BOUNDS(kRowThreads, 3) NormRowsReference(LayerNormReference l) {
  ASSAY_SHARED(double, partial, kMostWaves);
  ASSAY_SHARED(float, addends, kDeviations ? kOrderShared : 1);
  for (std::int64_t row = Block().x; row < l.rows; row += GridExtent().x) {
    const auto x = [&](std::int64_t j) { return Element::At(l.x, l.input, row * l.x_ld + j); };
    const double origin = OriginOf(l, x, partial);
    double sum = 0.0, absolute = 0.0;
    const OrderedSums of_x = Visit<kDeviations>(
        l.cols,
        [&](std::int64_t j) {
          const double v = x(j);
          sum += v - origin;
          absolute += std::abs(v);
          return v;
        },
        !l.terms.rms, addends, partial);
    sum = BlockReduce<Sum>(sum, partial, kRowThreads);
    absolute = BlockReduce<Sum>(absolute, partial, kRowThreads);
    const double center = l.terms.rms ? 0.0 : sum / l.terms.n;
    double squares = 0.0, fourth = 0.0;
    const OrderedSums of_squares = Visit<kDeviations>(
        l.cols,
        [&](std::int64_t j) {
          const double v = x(j) - origin - center, square = v * v;
          squares = Fma(v, v, squares);
          fourth = Fma(square, square, fourth);
          return square;
        },
        true, addends, partial);
    squares = BlockReduce<Sum>(squares, partial, kRowThreads);
    LayerNormMoments moments;
    double lost = 0.0;
    const auto lose = [&](std::int64_t j) {
      const double v = x(j) - origin - center;
      lost += LostSquare(v * v, l.model.u * squares);
    };
    if constexpr (kDeviations) {
      moments =
          MomentsOf(l, x, origin + center, squares, fourth, of_x, of_squares, addends, partial);
      if (!l.model.fits_rows() && squares > 0) {
        for (std::int64_t j = Thread().x; j < l.cols; j += kRowThreads) lose(j);
        moments.lost = BlockReduce<Sum>(lost, partial, kRowThreads) / (16 * squares);
      }
    }
    const LayerNormRow terms = MakeLayerNormRow(l.terms, origin, sum, absolute, squares);
    const RowDeviations to = l.deviations.OfRow(row, l.cols);
    RowFit fit;
    WriteRow(l, row, terms, x, [&](std::int64_t j, double weight, double bias) {
      if constexpr (kDeviations) {
        to.deviation[j] =
            static_cast<float>(AddLayerNormElement(l.model, moments, x(j), weight, bias, fit));
        if (l.model.fits_rows()) lose(j);
      }
    });
    if constexpr (kDeviations) {
      if (l.model.fits_rows() && squares > 0) {
        moments.lost = BlockReduce<Sum>(lost, partial, kRowThreads) / (16 * squares);
      }
      FinishDeviations(l.model, moments, fit, partial, to);
    }
  }
}

}  // namespace

ErrorCode LaunchLayerNormReference(const LayerNormReference& l, Stream stream) {
  return ForElement(l.input, [&](auto element) {
    using Element = decltype(element);
    const Extent block{kRowThreads, 1, 1};
    return l.deviations.deviation == nullptr
               ? Launch(NormRowsReference<Element, false>, RowGrid(l.rows), block, 0, stream, l)
               : Launch(NormRowsReference<Element, true>, RowGrid(l.rows), block, 0, stream, l);
  });
}

}  // namespace assay::kernels::gpu
