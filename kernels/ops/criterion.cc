#include "kernels/ops/criterion.h"

#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

Criterion GatingCriterion(const Case& c) {
  if (c.criterion != Criterion::kUnspecified) return c.criterion;
  return c.atol || c.rtol ? Criterion::kAllClose : Criterion::kBound;
}

std::string_view WordOf(Criterion criterion) {
  constexpr std::string_view kNames[] = {"",    "bound",   "derived", "allclose",
                                         "ulp", "bitwise", "legacy"};
  return kNames[static_cast<std::size_t>(criterion)];
}

void CheckFigures(Criterion criterion, const Case& rule, std::vector<FieldError>& errors) {
  const bool tolerances = criterion == Criterion::kAllClose || criterion == Criterion::kLegacy;
  if (!tolerances && (rule.atol || rule.rtol)) {
    errors.push_back({rule.atol ? "atol" : "rtol",
                      Cat("belongs to allclose and legacy, not to ", WordOf(criterion))});
  }
  // The bound of an operator of the caller's own follows from its accumulations.
  const bool accumulations = rule.accumulations > 0 && !OpOf(rule).traits().own_reference;
  if (criterion != Criterion::kDerived && (accumulations || rule.split_k > 0)) {
    errors.push_back({accumulations ? "accumulations" : "split_k",
                      Cat("belongs to derived, not to ", WordOf(criterion))});
  }
}

}  // namespace assay::kernels
