#include "kernels/ops/common/row_depth.h"

#include <algorithm>
#include <cmath>

#include "kernels/numerics/bound.h"

namespace assay::inline kernels {
namespace {

// Deviation of a whole sum's error in n·u·s, squared, if all addends are one; see the header.
constexpr double kRepeated = 0.15;
// A normal density is as wide as a uniform one of so many deviations.
constexpr double kNormalWidth = 3.5;

// Where the values of a pattern lie. width 0: they repeat.
struct Spread {
  double width = 0;
  double mean = 0;
};

Spread SpreadOf(const Pattern& p) {
  switch (p.kind) {
    case PatternKind::kNormal:
      return {kNormalWidth * p.a, std::abs(p.b)};
    case PatternKind::kNearConstant:
      return {kNormalWidth * std::abs(p.b), std::abs(p.a)};
    case PatternKind::kAllPositive:
      return {kNormalWidth / 2 * p.a, p.a};
    case PatternKind::kUniform:
    case PatternKind::kIntegers:
      return {p.b - p.a, std::abs(p.a + p.b) / 2};
    default:
      return {};
  }
}

}  // namespace

double RowDepth(std::int64_t n, double distinct) {
  const double length = static_cast<double>(n);
  const double variance = length + kRepeated * length * length / distinct;
  return std::min(length, kSqrtRuleFactor * std::sqrt(variance));
}

double DistinctAddends(const Pattern& pattern, DType dtype, Addends addends, std::int64_t n,
                       double u) {
  const Spread spread = SpreadOf(pattern);
  if (!(spread.width > 0) || u == 0) return 1;
  // The last place of a typical element: half the width away from the mean at most.
  const FormatInfo& f = Info(dtype);
  const double typical = std::max(spread.mean, spread.width / 2);
  double ulp =
      std::max(std::exp2(std::floor(std::log2(typical)) - f.mantissa_bits), f.min_subnormal);
  if (pattern.kind == PatternKind::kIntegers) ulp = std::max(ulp, 1.0);
  double values = spread.width / ulp;
  if (addends == Addends::kOwnSquares) values /= 8;
  if (addends == Addends::kSquares) return std::max(1.0, values);
  const double unit = addends == Addends::kExponentials ? 1.0 : spread.mean;
  const double relative = unit > spread.width ? spread.width / unit : 1.0;
  const double steps = relative / (u * static_cast<double>(n));
  return std::max(1.0, std::min(values, steps * steps));
}

void SetRowDepth(std::int64_t n, double distinct, Plan& plan) {
  plan.sum_depth = RowDepth(n, distinct);
  plan.proven_factor = std::max(plan.proven_factor, static_cast<double>(n) / plan.sum_depth);
}

}  // namespace assay::kernels
