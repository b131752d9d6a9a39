// The identities of a dequant_softmax on a GPU: a block a row; counts are sums of integers,
// so that they do not depend on the order of blocks.
#include <cmath>

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_identities_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

struct Least {
  template <class T>
  static ASSAY_DEVICE_MEMBER T Of(T a, T b) {
    return a < b ? a : b;
  }
};

ASSAY_GLOBAL void ClearFindings(DequantSoftmaxFindings* f) { *f = {0, 0, ~0ULL, 0, ~0ULL, 0, 0}; }

ASSAY_GLOBAL void CheckRows(DequantSoftmaxCheck c) {
  ASSAY_SHARED(double, partial, kMostWaves);
  const DequantSoftmaxReference& g = c.reference;
  for (std::int64_t at = Block().x; at < c.rows; at += GridExtent().x) {
    const std::int64_t row = c.first_row + at;
    const double* r = g.value + row * g.n;
    const auto y = [&](std::int64_t j) { return LoadDouble(c.output, c.y, row * c.y_ld + j); };
    double sum = 0.0, total = 0.0, largest = 0.0;
    for (std::int64_t j = Thread().x; j < g.n; j += kRowThreads) {
      sum += y(j);
      total += r[j];
      largest = Max(largest, r[j]);
    }
    sum = BlockReduce<Sum>(sum, partial, kRowThreads);
    total = BlockReduce<Sum>(total, partial, kRowThreads);
    largest = BlockReduce<Largest>(largest, partial, kRowThreads);
    if (total != total) continue;  // for all threads alike
    // One logit is summed anew; the others follow from it and the reference.
    double first = static_cast<double>(g.n);
    for (std::int64_t j = Thread().x; j < g.n; j += kRowThreads) {
      if (r[j] == largest) first = Least::Of(first, static_cast<double>(j));
    }
    first = BlockReduce<Least>(first, partial, kRowThreads);
    const std::int64_t column = static_cast<std::int64_t>(first);
    double max = 0.0;
    for (std::int64_t k = Thread().x; k < g.k; k += kRowThreads) {
      max += LoadDouble(g.input, g.a, row * g.a_ld + k) *
             LoadDouble(DType::kI8, g.w, g.transpose_w ? column * g.w_ld + k : k * g.w_ld + column);
    }
    max = BlockReduce<Sum>(max, partial, kRowThreads) * LoadDouble(DType::kF32, g.scale, column);
    double spread = 0.0;
    for (std::int64_t j = Thread().x; j < g.n; j += kRowThreads) {
      if (r[j] > 0) spread += SoftmaxSpread(r[j], max + std::log(r[j] / largest), max);
    }
    spread = BlockReduce<Sum>(spread, partial, kRowThreads);
    if (Thread().x == 0) {
      AtomicAdd(&c.findings->rows, 1);
      const double bound = SoftmaxSumBound(g.bound.arithmetic, c.rounding,
                                           HeldFormat{g.bound.intermediate}, g.n, spread);
      if (!(std::abs(sum - 1) <= bound)) {
        AtomicAdd(&c.findings->sums_broken, 1);
        AtomicMin(&c.findings->first_sum, static_cast<unsigned long long>(row));
      }
      if (c.rows == 1) {
        c.findings->sum = sum;
        c.findings->bound = bound;
      }
    }
    for (std::int64_t j = Thread().x; j < g.n; j += kRowThreads) {
      const double v = y(j);
      if (v >= 0 && v <= 1 + TBound(c.rounding, r[j], g.allowance[row * g.n + j])) continue;
      AtomicAdd(&c.findings->out_of_range, 1);
      AtomicMin(&c.findings->first_out_of_range, static_cast<unsigned long long>(row * g.n + j));
    }
  }
}

}  // namespace

ErrorCode LaunchDequantSoftmaxCheck(const DequantSoftmaxCheck& c, Stream stream) {
  const ErrorCode cleared =
      Launch(ClearFindings, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, c.findings);
  if (cleared != kOk) return cleared;
  return Launch(CheckRows, RowGrid(c.rows), Extent{kRowThreads, 1, 1}, 0, stream, c);
}

}  // namespace assay::kernels::gpu
