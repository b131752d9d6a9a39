// The keys of a suite's case, and what each sets.
#ifndef ASSAY_KERNELS_SUITES_CASE_VALUES_H_
#define ASSAY_KERNELS_SUITES_CASE_VALUES_H_

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/suites/toml_values.h"

namespace assay::suites {

// Keys every operator's case has; the fields of its problem are keys too.
std::span<const std::string_view> CaseKeys();

// The fields of an operator's problem.
std::vector<std::string_view> FieldNames(const Problem& problem);

// Sets what one key says, CaseKeys and FieldNames known; not for op and backend.
absl::Status SetCaseValue(std::string_view file, std::string_view key, const toml::node& node,
                          Case& c);

// The format of a word.
absl::StatusOr<DType> ReadDType(const Location& at, std::string_view word);

}  // namespace assay::suites

#endif  // ASSAY_KERNELS_SUITES_CASE_VALUES_H_
