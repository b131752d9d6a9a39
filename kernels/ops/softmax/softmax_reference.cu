// The right output of a softmax and its allowance, for GPUs, in FP64. One block a row,
// which is read three times, for its maximum, its sum and its elements; what the sum loses is
// taken from the exponentials, which stand in the place of the values until then. The order of
// each sum is fixed by the launch.
//
// The deviations σ and σ_β, if they are asked for, come from the same passes: they cost 4 bytes an
// element and 8 a row of writing. What usual orders make of the sum (sum_orders_gpu.h) is looked at
// while the exponentials are read for what it loses.
#include <cmath>

#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/common/softmax_deviation_gpu.h"
#include "kernels/ops/common/sum_orders_gpu.h"
#include "kernels/ops/softmax/softmax_reference_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

template <class Element, bool kDeviations>
ASSAY_GLOBAL void SoftmaxRowsReference(SoftmaxReference s) {
  ASSAY_SHARED(double, partial, kMostWaves);
  ASSAY_SHARED(float, addends, kDeviations ? kOrderShared : 1);
  for (std::int64_t row = Block().x; row < s.rows; row += GridExtent().x) {
    const auto x = [&](std::int64_t j) { return Element::At(s.x, s.input, row * s.x_ld + j); };
    double* value = s.value + row * s.cols;
    SoftmaxRow of;
    of.max = -HUGE_VAL;
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      const double v = x(j);
      of.max = v > of.max ? v : of.max;  // a NaN spreads through the sum
    }
    of.max = BlockReduce<Largest>(of.max, partial, kRowThreads);
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      const double p = Exp(x(j) - of.max);
      value[j] = p;
      of.sum += p;
    }
    of.sum = BlockReduce<Sum>(of.sum, partial, kRowThreads);
    // A thread reads what it wrote itself.
    const double unit = s.terms.arithmetic.u * of.sum;
    const auto addend = [&](std::int64_t j) {
      of.lost += LostAddend(value[j], unit);
      return value[j];
    };
    double seen = 0.0;
    if constexpr (kDeviations) {
      seen = SumInOrders(s.cols, addend, addends, partial).RelativeError();
    } else {
      for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) addend(j);
    }
    of.lost = BlockReduce<Sum>(of.lost, partial, kRowThreads);
    const double roundings = SoftmaxRowRoundings(s.terms, of);
    const RowDeviations to = s.deviations.OfRow(row, s.cols);
    const SoftmaxDeviation model = s.model.OfRow(of.sum);
    SoftmaxRowSums sums;
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      const double r = value[j] / of.sum, v = x(j);
      value[j] = r;
      s.allowance[row * s.cols + j] = SoftmaxAllowance(s.terms, r, v, of, roundings);
      if constexpr (kDeviations) {
        to.deviation[j] = static_cast<float>(sums.Add(model, r, v, of.max));
      }
    }
    if constexpr (kDeviations) {
      FinishSoftmaxDeviations(model, of.max, of.lost / of.sum, seen, sums, partial, to);
    }
  }
}

}  // namespace

ErrorCode LaunchSoftmaxReference(const SoftmaxReference& s, Stream stream) {
  return ForElement(s.input, [&](auto element) {
    using Element = decltype(element);
    const Extent block{kRowThreads, 1, 1};
    return s.deviations.deviation == nullptr
               ? Launch(SoftmaxRowsReference<Element, false>, RowGrid(s.rows), block, 0, stream, s)
               : Launch(SoftmaxRowsReference<Element, true>, RowGrid(s.rows), block, 0, stream, s);
  });
}

}  // namespace assay::kernels::gpu
