// The identities of a softmax on a GPU: a block a row; counts are sums of integers, so
// that they do not depend on the order of blocks.
#include "kernels/ops/softmax/softmax_identities_gpu.h"

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_GLOBAL void ClearFindings(SoftmaxFindings* f) { *f = {0, 0, ~0ULL, 0, ~0ULL}; }

ASSAY_GLOBAL void CheckRows(SoftmaxCheck c) {
  ASSAY_SHARED(double, partial, kMostWaves);
  const SoftmaxReference& s = c.reference;
  for (std::int64_t row = Block().x; row < s.rows; row += GridExtent().x) {
    const double* r = s.value + row * s.cols;
    const auto y = [&](std::int64_t j) { return LoadDouble(c.output, c.y, row * c.y_ld + j); };
    double max = -HUGE_VAL;
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      const double v = LoadDouble(s.input, s.x, row * s.x_ld + j);
      max = v > max ? v : max;
    }
    max = BlockReduce<Largest>(max, partial, kRowThreads);
    double sum = 0.0, spread = 0.0, total = 0.0;
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      sum += y(j);
      total += r[j];
      spread += SoftmaxSpread(r[j], LoadDouble(s.input, s.x, row * s.x_ld + j), max);
    }
    sum = BlockReduce<Sum>(sum, partial, kRowThreads);
    total = BlockReduce<Sum>(total, partial, kRowThreads);
    spread = BlockReduce<Sum>(spread, partial, kRowThreads);
    if (total != total) continue;  // for all threads alike
    if (Thread().x == 0) {
      AtomicAdd(&c.findings->rows, 1);
      const double bound =
          SoftmaxSumBound(s.terms.arithmetic, c.rounding, s.terms.held, s.cols, spread);
      if (!(std::abs(sum - 1) <= bound)) {
        AtomicAdd(&c.findings->sums_broken, 1);
        AtomicMin(&c.findings->first_sum, static_cast<unsigned long long>(row));
      }
    }
    for (std::int64_t j = Thread().x; j < s.cols; j += kRowThreads) {
      const double v = y(j);
      if (v >= 0 && v <= 1 + TBound(c.rounding, r[j], s.allowance[row * s.cols + j])) continue;
      AtomicAdd(&c.findings->out_of_range, 1);
      AtomicMin(&c.findings->first_out_of_range, static_cast<unsigned long long>(row * s.cols + j));
    }
  }
}

}  // namespace

ErrorCode LaunchSoftmaxCheck(const SoftmaxCheck& c, Stream stream) {
  const ErrorCode cleared =
      Launch(ClearFindings, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, c.findings);
  if (cleared != kOk) return cleared;
  return Launch(CheckRows, RowGrid(c.reference.rows), Extent{kRowThreads, 1, 1}, 0, stream, c);
}

}  // namespace assay::kernels::gpu
