// Reads the keys of a suite's case and sets the case's values.
#ifndef ASSAY_KERNELS_SUITES_CASE_VALUES_H_
#define ASSAY_KERNELS_SUITES_CASE_VALUES_H_

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/suites/toml_values.h"

namespace assay::inline kernels::suites {

// The keys that cases of every operator have. The fields of the operator's problem are keys, too.
std::span<const std::string_view> CaseKeys();

// The names of the fields of an operator's problem.
std::vector<std::string_view> FieldNames(const Problem& problem);

// Sets the value of one key, which must be one of CaseKeys or FieldNames. Not for "op" and
// "backend".
absl::Status SetCaseValue(std::string_view file, std::string_view key, const toml::node& node,
                          Case& c);

// Parses the name of a format.
absl::StatusOr<DType> ReadDType(const Location& at, std::string_view word);

}  // namespace assay::kernels::suites

#endif  // ASSAY_KERNELS_SUITES_CASE_VALUES_H_
