// CaseOption: one option of the command line that sets a field of a CaseSpec. The options are made
// from the descriptors of the messages.
//
// Each field of a problem message is an option of that operator: "mask_density" is --mask-density,
// and the help text is the field's (assay.v1.help). The fields of the case itself (dtype, provider,
// tolerances) are options of every operator. Every option takes a list with commas, and a list is
// an axis of a sweep.
#ifndef ASSAY_CLIENT_LIB_CASE_OPTIONS_H_
#define ASSAY_CLIENT_LIB_CASE_OPTIONS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/case.pb.h"
#include "google/protobuf/descriptor.h"

namespace assay::client {

// One option: "--mask-density", and the field it sets.
struct CaseOption {
  std::string flag;                                // "mask-density"
  std::string help;                                // one line
  std::string value;                               // "N", "X", "NxN", "WORD"; empty for a flag
  const google::protobuf::FieldDescriptor* field;  // of the problem, or of CaseSpec
  bool of_problem = false;

  // The field's path in errors: "gemm.m", "dtype".
  std::string path() const;

  // An extent that must be said, since it has no default: m, heads, cols.
  bool required() const;
};

// The problem options of an operator; empty for an unknown one.
std::vector<CaseOption> ProblemOptions(std::string_view op);

// The options that every operator's case has.
std::vector<CaseOption> CommonCaseOptions();

// Sets one field of the case, of operator `op`, from text. INVALID_ARGUMENT says
// the path, what was written and what would be right. What the daemon can see
// for itself (ranges, divisibility) is left to it.
absl::Status SetOption(const CaseOption& option, std::string_view text, v1::CaseSpec& spec);

// An option as given: the comma list not yet split.
using GivenOption = std::pair<CaseOption, std::string>;

// Most cases one command may expand to.
inline constexpr std::size_t kMostCases = 10000;

// Every combination of the options' values, the last option varying fastest.
// INVALID_ARGUMENT lists everything that is wrong, a line each, or says how many
// cases the sweep would have where that is more than kMostCases.
absl::StatusOr<std::vector<v1::CaseSpec>> Expand(std::string_view op,
                                                 const std::vector<GivenOption>& given);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_CASE_OPTIONS_H_
