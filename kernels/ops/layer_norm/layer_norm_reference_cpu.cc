#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/layer_norm/layer_norm_reference_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <vector>

#include "hwy/highway.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/layer_norm/layer_norm_reference.h"
#include "kernels/ops/layer_norm/layer_norm_reference_cpu.h"
#include "kernels/runtime/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// One row; x is padded to whole vectors with zeros, weight, bias, value and
// allowance are padded too.
void Row(const LayerNormProblem& problem, const LayerNormTerms& terms, const double* x,
         const double* weight, const double* bias, double* value, double* allowance) {
  const hn::ScalableTag<double> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = problem.cols;
  const double first = LayerNormOrigin(problem, x);
  const V origin = hn::Set(d, first);
  V sum = hn::Zero(d), absolute = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += lanes) {
    const V v = hn::LoadU(d, x + i);
    V from = hn::Sub(v, origin);
    if (i + lanes > n) {
      from = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(n - i)), from);
    }
    sum = hn::Add(sum, from);
    absolute = hn::Add(absolute, hn::Abs(v));
  }
  const double total = hn::GetLane(hn::SumOfLanes(d, sum));
  const V center = hn::Set(d, problem.rms ? 0.0 : total / static_cast<double>(n));
  V squares = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += lanes) {
    V v = hn::Sub(hn::Sub(hn::LoadU(d, x + i), origin), center);
    if (i + lanes > n) v = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(n - i)), v);
    squares = hn::MulAdd(v, v, squares);
  }
  const LayerNormRow row =
      MakeLayerNormRow(terms, first, total, hn::GetLane(hn::SumOfLanes(d, absolute)),
                       hn::GetLane(hn::SumOfLanes(d, squares)));

  // As MakeLayerNormElement.
  const V unit = hn::Set(d, terms.u);
  const V offset = hn::Set(d, row.offset), rstd = hn::Set(d, row.rstd);
  const V spread = hn::Set(d, row.spread);
  const V of_y = hn::Set(d, row.scaled), of_zero = hn::Set(d, row.step);
  const V of_product = hn::Set(d, 2 + 2 * terms.intermediate);
  const V one = hn::Set(d, 1.0), two = hn::Set(d, 2.0), step = hn::Set(d, terms.held_step);
  const V infinity = hn::Set(d, HUGE_VAL);
  const auto bounded = hn::Lt(of_y, infinity);
  for (std::int64_t i = 0; i < n; i += lanes) {
    const V y = hn::Mul(hn::Sub(hn::Sub(hn::LoadU(d, x + i), origin), offset), rstd);
    const V size = hn::Abs(y);
    V r = y;
    V e = hn::MulAdd(spread, hn::Add(one, size), hn::MulAdd(of_y, size, of_zero));
    if (problem.affine) {
      const V w = hn::LoadU(d, weight + i);
      const V scaled = hn::Mul(w, y);
      r = hn::Add(scaled, hn::LoadU(d, bias + i));
      e = hn::MulAdd(hn::Abs(w), e,
                     hn::MulAdd(of_product, hn::Abs(scaled), hn::MulAdd(two, hn::Abs(r), step)));
    }
    hn::StoreU(r, d, value + i);
    e = hn::IfThenElseZero(hn::Lt(hn::Abs(r), infinity), hn::Mul(unit, e));
    hn::StoreU(hn::IfThenElse(bounded, e, infinity), d, allowance + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(Row);

void LayerNormReferenceCpu(const LayerNormProblem& problem, const LayerNormTerms& terms,
                           const LayerNormDeviation& deviation, DType input,
                           std::span<const TensorView> inputs, const ReferenceBuffers& out) {
  const std::int64_t cols = problem.cols;
  constexpr std::int64_t kMaxLanes = 8;
  constexpr std::int64_t kGrain = 1 << 12;  // elements
  const std::int64_t padded = cols + kMaxLanes;
  const auto size = static_cast<std::size_t>(padded);
  std::vector<double> weight(size, 1.0), bias(size, 0.0);
  if (problem.affine) LoadDoubles(inputs[1].dtype, inputs[1].data, 0, cols, weight.data());
  if (problem.affine && !problem.rms) {
    LoadDoubles(inputs[2].dtype, inputs[2].data, 0, cols, bias.data());
  }
  ParallelFor(problem.rows, std::max<std::int64_t>(1, kGrain / cols),
              [&](std::int64_t begin, std::int64_t end) {
                const bool deviates = out.deviation != nullptr;
                // As many rows as deviations are made of at a time.
                const std::int64_t most = deviates ? kNormRows : 1;
                std::vector<double> x(size * static_cast<std::size_t>(most), 0.0), r(size), e(size);
                for (std::int64_t row0 = begin; row0 < end; row0 += most) {
                  const std::int64_t count = std::min(most, end - row0);
                  RowDeviations to[kNormRows];
                  for (std::int64_t i = 0; i < count; ++i) {
                    const std::int64_t row = row0 + i;
                    double* const own = x.data() + i * padded;
                    LoadDoubles(input, inputs[0].data, row * inputs[0].extents.ld, cols, own);
                    HWY_DYNAMIC_DISPATCH(Row)
                    (problem, terms, own, weight.data(), bias.data(), r.data(), e.data());
                    std::copy_n(r.data(), cols, out.value + row * cols);
                    std::copy_n(e.data(), cols, out.allowance + row * cols);
                    to[i] = RowOf(out, row, cols);
                  }
                  if (deviates) {
                    LayerNormDeviationsOfRows(deviation, cols, count, x.data(), padded,
                                              weight.data(), bias.data(), to);
                  }
                }
              });
}

}  // namespace assay::kernels
#endif
