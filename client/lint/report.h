// The report of a lint, for people and for programs.
#ifndef ASSAY_CLIENT_LINT_REPORT_H_
#define ASSAY_CLIENT_LINT_REPORT_H_

#include <string>

#include "client/lint/lint.h"
#include "client/report/message_json.h"

namespace assay::client {

// Lines for a person: the file and its kernels, each finding with its kernel.
std::string LintText(const LintReport& report);

// {"schema": "assay.lint/v1", "file", "target", "kernels": [{"name", "target", "registers",
// "findings": [{"severity", "rule", "message"}]}]}. "registers" has every figure of the kernel.
Json LintJson(const LintReport& report);

// Whether any finding is an error.
bool HasError(const LintReport& report);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LINT_REPORT_H_
