#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/softmax/softmax_reference_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <limits>
#include <vector>

#include "hwy/highway.h"
#include "kernels/ops/common/exp-inl.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/common/sum_orders.h"
#include "kernels/ops/softmax/softmax_reference.h"
#include "kernels/ops/softmax/softmax_reference_cpu.h"
#include "kernels/runtime/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// One row of n elements; x is padded to whole vectors with -inf, `value` and
// `allowance` are padded too.
void Row(const SoftmaxTerms& terms, std::int64_t n, const double* x, double* value,
         double* allowance) {
  const hn::ScalableTag<double> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V largest = hn::Set(d, -std::numeric_limits<double>::infinity());
  for (std::int64_t i = 0; i < n; i += lanes) {
    // Beside a NaN any of the two: a NaN spreads through l.
    largest = hn::Max(hn::LoadU(d, x + i), largest);
  }
  const V max = hn::MaxOfLanes(d, largest);
  V sum = hn::Zero(d);
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  for (std::int64_t i = 0; i < n; i += lanes) {
    const V p = ExpOf(d, hn::Sub(hn::LoadU(d, x + i), max));
    hn::StoreU(p, d, value + i);
    sum = hn::Add(sum, p);  // padding adds exp(-inf) = 0
  }
  const V l = hn::SumOfLanes(d, sum);
  // As LostAddend.
  const Arithmetic& arithmetic = terms.arithmetic;
  SoftmaxRow row = {hn::GetLane(max), hn::GetLane(l), 0.0};
  const V unit = hn::Set(d, arithmetic.u * row.sum), one = hn::Set(d, 1.0);
  V lost = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += lanes) {
    const V p = hn::LoadU(d, value + i);
    const V ratio = hn::Min(hn::Div(unit, p), one);
    lost = hn::MulAdd(hn::Mul(p, ratio), hn::Mul(ratio, ratio), lost);
  }
  row.lost = hn::GetLane(hn::SumOfLanes(d, lost));
  const V two = hn::Set(d, 2.0), u = hn::Set(d, arithmetic.u * arithmetic.times);
  const V fixed = hn::Set(d, SoftmaxRowRoundings(terms, row));
  const V flush = hn::Set(d, kFlushedExp * arithmetic.min_normal * arithmetic.times +
                                 SoftmaxStepLoss(terms.held, row.sum));
  const V size = hn::Abs(max);
  const V held = hn::Set(d, terms.held.roundoff);
  for (std::int64_t i = 0; i < n; i += lanes) {
    const V v = hn::LoadU(d, x + i);
    const V r = hn::Div(hn::LoadU(d, value + i), l);
    const V distance = hn::Add(hn::Abs(hn::Sub(v, max)), hn::Add(hn::Abs(v), size));
    // As SoftmaxAllowance: nothing of what may be infinite where r is 0.
    const V relative = hn::MulAdd(u, hn::MulAdd(two, distance, fixed), held);
    const V e = hn::MulAdd(r, hn::IfThenElseZero(hn::Gt(r, hn::Zero(d)), relative), flush);
    hn::StoreU(r, d, value + i);
    // As SoftmaxAllowance: nothing where r or x is not finite.
    const auto finite = hn::And(hn::Eq(r, r), hn::Lt(hn::Abs(v), infinity));
    hn::StoreU(hn::IfThenElseZero(finite, e), d, allowance + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(Row);

void SoftmaxReferenceCpu(const SoftmaxProblem& problem, const SoftmaxTerms& terms,
                         const SoftmaxDeviation& deviation, DType input,
                         std::span<const TensorView> inputs, const ReferenceBuffers& out) {
  const std::int64_t cols = problem.cols;
  constexpr std::int64_t kMaxLanes = 8;
  constexpr std::int64_t kGrain = 1 << 12;  // elements
  const std::int64_t padded = cols + kMaxLanes;
  ParallelFor(problem.rows, std::max<std::int64_t>(1, kGrain / cols),
              [&](std::int64_t begin, std::int64_t end) {
                const bool deviates = out.deviation != nullptr;
                // As many rows as deviations are made of at a time.
                const std::int64_t most = deviates ? kRowsTogether : 1;
                const auto size = static_cast<std::size_t>(padded);
                const std::size_t all = size * static_cast<std::size_t>(most);
                std::vector<double> x(all, -std::numeric_limits<double>::infinity()), r(all),
                    e(size);
                for (std::int64_t row0 = begin; row0 < end; row0 += most) {
                  const std::int64_t count = std::min(most, end - row0);
                  RowDeviations to[kRowsTogether];
                  for (std::int64_t i = 0; i < count; ++i) {
                    const std::int64_t row = row0 + i;
                    double* const own_x = x.data() + i * padded;
                    double* const own_r = r.data() + i * padded;
                    LoadDoubles(input, inputs[0].data, row * inputs[0].extents.ld, cols, own_x);
                    HWY_DYNAMIC_DISPATCH(Row)(terms, cols, own_x, own_r, e.data());
                    std::copy_n(own_r, cols, out.value + row * cols);
                    std::copy_n(e.data(), cols, out.allowance + row * cols);
                    to[i] = RowOf(out, row, cols);
                  }
                  if (deviates) {
                    SoftmaxDeviationsOfRows(deviation, cols, count, x.data(), r.data(), padded, to);
                  }
                }
              });
}

}  // namespace assay::kernels
#endif
