#include "kernels/judge/provenance.h"

#include <algorithm>
#include <string_view>

namespace assay::inline kernels {
namespace {

// NaN that are only the poison of what was never written.
std::int64_t Poisoned(const CompareResult& compare, std::int64_t unwritten) {
  return std::min(unwritten, compare.unwritten);
}

}  // namespace

bool HasNonFinite(const CompareResult& compare, std::int64_t unwritten) {
  return compare.nan_count > Poisoned(compare, unwritten) || compare.inf_count > 0;
}

std::vector<Provenance> TraceNonFinite(const CompareResult& compare, std::int64_t unwritten,
                                       std::span<const OperandStats> inputs) {
  std::vector<Provenance> found;
  const auto add = [&](std::string_view kind, std::string_view origin, bool expected,
                       std::int64_t count, std::int64_t first) {
    if (count > 0) found.push_back(Provenance{kind, origin, expected, count, first});
  };
  const std::int64_t poisoned = Poisoned(compare, unwritten);
  add("nan", "unwritten", false, poisoned, compare.first_unwritten);
  if (!HasNonFinite(compare, unwritten)) return found;

  const auto any = [&](std::int64_t OperandStats::*count) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [count](const OperandStats& s) { return s.*count > 0; });
  };
  const std::string_view nan_origin = any(&OperandStats::nan_count) ? "input" : "kernel";
  const std::string_view inf_origin = any(&OperandStats::inf_count) ? "input" : "kernel";
  const std::int64_t nan = compare.nan_count - poisoned;
  const std::int64_t expected_nan = nan - compare.unexpected_nan;
  const std::int64_t expected_inf = compare.inf_count - compare.unexpected_inf;
  add("nan", nan_origin, true, expected_nan, compare.first_nan);
  add("nan", nan_origin, false, compare.unexpected_nan, compare.first_unexpected_nan);
  add("inf", inf_origin, true, expected_inf, compare.first_inf);
  add("inf", inf_origin, false, compare.unexpected_inf, compare.first_unexpected_inf);
  return found;
}

}  // namespace assay::kernels
