#include "kernels/runtime/cpu/compare_element.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace assay::inline kernels::internal {

void AddElement(const CompareRule& rule, std::int64_t index, std::uint64_t bits, double r, double e,
                CompareResult* result) {
  const Judgement j = AddToTotals(rule, index, bits, r, e, result);
  if (j.mismatch && result->samples.size() < kMismatchSamples) {
    result->samples.push_back(SampleOf(j, index, bits));
  }
}

namespace {

void MergeFirst(std::int64_t next, std::int64_t* into) {
  if (*into < 0) *into = next;
}

}  // namespace

void MergeCompare(const CompareResult& next, CompareResult* into) {
  CompareResult& c = *into;
  for (const ElementSample& s : next.samples) {
    if (c.samples.size() < kMismatchSamples) c.samples.push_back(s);
  }
  // The worst element is the first of a wrong class, or else the one with the largest ratio. Of
  // equal ratios the earlier one counts.
  const bool next_worse = next.class_mismatches > 0 || c.worst.index < 0 || next.rho > c.rho;
  if (next.worst.index >= 0 && c.class_mismatches == 0 && next_worse) c.worst = next.worst;

  c.count += next.count;
  c.mismatches += next.mismatches;
  c.beyond_probable += next.beyond_probable;
  c.beyond_proven += next.beyond_proven;
  c.rho = std::max(c.rho, next.rho);
  c.rho_proven = std::max(c.rho_proven, next.rho_proven);
  c.max_abs_error = std::max(c.max_abs_error, next.max_abs_error);
  c.sum_abs_error += next.sum_abs_error;
  c.sum_squared_error += next.sum_squared_error;
  c.max_rel_error = std::max(c.max_rel_error, next.max_rel_error);
  c.max_ulp = std::max(c.max_ulp, next.max_ulp);
  c.dot += next.dot;
  c.sum_squared_actual += next.sum_squared_actual;
  c.sum_squared_expected += next.sum_squared_expected;
  c.max_abs_expected = std::max(c.max_abs_expected, next.max_abs_expected);
  c.finite_pairs += next.finite_pairs;
  c.bias_count += next.bias_count;
  c.bias_sum += next.bias_sum;
  c.bias_sum_squared += next.bias_sum_squared;
  c.nan_count += next.nan_count;
  c.inf_count += next.inf_count;
  c.reference_nan_count += next.reference_nan_count;
  c.reference_inf_count += next.reference_inf_count;
  c.class_mismatches += next.class_mismatches;
  c.unwritten += next.unwritten;
  c.zero_count += next.zero_count;
  c.reference_zero_count += next.reference_zero_count;
  MergeFirst(next.first_nan, &c.first_nan);
  MergeFirst(next.first_inf, &c.first_inf);
  MergeFirst(next.first_unexpected_nan, &c.first_unexpected_nan);
  MergeFirst(next.first_unexpected_inf, &c.first_unexpected_inf);
  MergeFirst(next.first_unwritten, &c.first_unwritten);
  c.unexpected_nan += next.unexpected_nan;
  c.unexpected_inf += next.unexpected_inf;
  for (int k = 0; k < 2; ++k) {
    c.digest_raw[k] += next.digest_raw[k];
    c.digest_canonical[k] += next.digest_canonical[k];
  }
}

absl::Status CheckCompareRequest(const CompareRequest& request) {
  const TensorView& output = request.output;
  if (output.dtype == DType::kUnspecified) {
    return absl::InvalidArgumentError(
        "compare: output.dtype is unspecified; it must name the output's format");
  }
  if (output.count() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("compare: output.extents hold ", output.count(),
                                                   " elements; the count must be at least 0"));
  }
  if (output.count() > 0 && output.data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("compare: output.data is null; it must hold ", output.count(), " elements"));
  }
  if (output.count() > 0 && request.reference == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("compare: reference is null; it must hold ", output.count(), " elements"));
  }
  if (!(request.proven_factor >= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "compare: proven_factor is ", request.proven_factor, "; it must be at least 1"));
  }
  for (const auto& [name, tolerance] :
       {std::pair{"atol", request.atol}, {"rtol", request.rtol}, {"max_ulp", request.max_ulp}}) {
    if (!(tolerance >= 0.0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("compare: ", name, " is ", tolerance, "; it must be at least 0"));
    }
  }
  return absl::OkStatus();
}

}  // namespace assay::kernels::internal
