#include "kernels/judge/gating.h"

#include <algorithm>
#include <cmath>

namespace assay::inline kernels {
namespace {

// Customary tolerances of validation labs, used where a tolerance criterion is
// asked for without figures.
struct CustomaryTolerance {
  DType dtype;
  Tolerance tolerance;
};
constexpr CustomaryTolerance kCustomary[] = {
    {DType::kF64, {.atol = 1e-7, .rtol = 1e-5}},
    {DType::kF32, {.atol = 1e-4, .rtol = 1e-4}},
    {DType::kF16, {.atol = 1e-2, .rtol = 1e-3}},
    {DType::kBF16, {.atol = 1e-1, .rtol = 1e-2}},
};
constexpr Tolerance kCustomaryElse = {.atol = 1e-2, .rtol = 1e-2};

Tolerance Customary(DType dtype) {
  for (const CustomaryTolerance& c : kCustomary) {
    if (c.dtype == dtype) return c.tolerance;
  }
  return kCustomaryElse;
}

Gating WithTolerance(const Tolerance& tolerance) {
  Gating g;
  g.gate = Gate::kAllClose;
  g.atol = tolerance.atol;
  g.rtol = tolerance.rtol;
  g.uses_tolerances = true;
  return g;
}

}  // namespace

Tolerance DerivedTolerance(const DerivedTerms& terms, double max_abs_expected) {
  const FormatInfo& compute = Info(terms.compute);
  const FormatInfo& output = Info(terms.output);
  if (compute.is_integer || output.is_integer) return {};
  const std::int64_t s = std::max<std::int64_t>(1, terms.split_k);
  const std::int64_t n = std::max<std::int64_t>(1, terms.accumulations);
  const std::int64_t chain = (n + s - 1) / s;  // the longest part of a sum
  double accumulated = static_cast<double>(chain) * terms.accumulator_roundoff;
  if (s > 1) accumulated += static_cast<double>(s) * output.unit_roundoff;
  Tolerance t;
  t.rtol = std::max({compute.unit_roundoff, output.unit_roundoff, accumulated});
  t.atol = 0.5 * output.min_subnormal;
  if (max_abs_expected > 0 && std::isfinite(max_abs_expected)) {
    t.atol += std::ldexp(t.rtol, std::ilogb(max_abs_expected));
  }
  return t;
}

Gating MakeGating(const Case& c, const Plan& plan, double max_abs_expected) {
  Gating g;
  switch (c.criterion) {
    case Criterion::kUnspecified:
    case Criterion::kBound:
      g.gate = plan.zero_mean_random ? Gate::kBoundProbable : Gate::kBound;
      break;
    case Criterion::kDerived: {
      if (plan.exact) return WithTolerance({});
      return WithTolerance(DerivedTolerance(
          {.compute = c.dtype,
           .output = plan.output.dtype,
           .accumulator_roundoff = plan.accumulator_roundoff,
           .accumulations = c.accumulations > 0 ? c.accumulations : plan.accumulations,
           .split_k = c.split_k},
          max_abs_expected));
    }
    case Criterion::kAllClose:
      if (!c.atol && !c.rtol) return WithTolerance(Customary(c.dtype));
      return WithTolerance({.atol = c.atol.value_or(0), .rtol = c.rtol.value_or(0)});
    case Criterion::kLegacy: {
      const Tolerance customary = Customary(c.dtype);
      return WithTolerance(
          {.atol = c.atol.value_or(customary.atol), .rtol = c.rtol.value_or(customary.rtol)});
    }
    case Criterion::kUlp:
      g.gate = Gate::kUlp;
      g.max_ulp = c.max_ulp.value_or(1.0);
      break;
    case Criterion::kBitwise:
      g.gate = Gate::kBitwise;
      break;
  }
  return g;
}

}  // namespace assay::kernels
