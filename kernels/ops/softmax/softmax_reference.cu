// The right output of a softmax and its allowance, for GPUs, in FP64. One block a row,
// which is read three times, for its maximum, its sum and its elements; the order of the
// sum is fixed by the launch.
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
    double max = -HUGE_VAL;
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      const double v = x(j);
      max = v > max ? v : max;  // a NaN spreads through the sum
    }
    max = BlockReduce<Largest>(max, partial, kRowThreads);
    double sum = 0.0;
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) sum += Exp(x(j) - max);
    sum = BlockReduce<Sum>(sum, partial, kRowThreads);
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      const double v = x(j);
      const double r = Exp(v - max) / sum;
      s.value[row * s.cols + j] = r;
      s.allowance[row * s.cols + j] =
          SoftmaxAllowance(s.arithmetic, s.intermediate, r, v, max, s.cols);
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
