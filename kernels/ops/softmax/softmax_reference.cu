// The right output of a softmax and its allowance, for GPUs, in FP64. One block a row,
// which is read three times, for its maximum, its sum and its elements; what the sum loses is
// taken from the exponentials, which stand in the place of the values until then. The order of
// each sum is fixed by the launch.
#include <cmath>

#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/softmax/softmax_reference_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::gpu {
namespace {

template <class Element>
ASSAY_GLOBAL void SoftmaxRowsReference(SoftmaxReference s) {
  ASSAY_SHARED(double, partial, kMostWaves);
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
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      of.lost += LostAddend(value[j], unit);
    }
    of.lost = BlockReduce<Sum>(of.lost, partial, kRowThreads);
    const double roundings = SoftmaxRowRoundings(s.terms, of);
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      const double r = value[j] / of.sum;
      value[j] = r;
      s.allowance[row * s.cols + j] = SoftmaxAllowance(s.terms, r, x(j), of.max, roundings);
    }
  }
}

}  // namespace

ErrorCode LaunchSoftmaxReference(const SoftmaxReference& s, Stream stream) {
  return ForElement(s.input, [&](auto element) {
    return Launch(SoftmaxRowsReference<decltype(element)>, RowGrid(s.rows),
                  Extent{kRowThreads, 1, 1}, 0, stream, s);
  });
}

}  // namespace assay::gpu
