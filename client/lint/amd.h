// Lint of an AMD code object: each kernel's descriptor and metadata against its instructions.
#ifndef ASSAY_CLIENT_LINT_AMD_H_
#define ASSAY_CLIENT_LINT_AMD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lint/amd_code.h"
#include "client/lint/lint.h"
#include "nlohmann/json.hpp"

namespace assay::client {

// The kernels of the ELF file at `path`. `arch` as Lint has it.
absl::StatusOr<std::vector<LintedKernel>> LintAmd(const std::string& path, const std::string& arch);

// The rules alone: the kernels of code and metadata (the value of "amdhsa.kernels") of a target.
std::vector<LintedKernel> HoldAmd(const AmdCode& code, const nlohmann::json& metadata,
                                  const std::string& target);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LINT_AMD_H_
