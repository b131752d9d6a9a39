// Explains in words why a result has its verdict.
//
// The explanation names the rule that gated and its bound, the element nearest to the bound or
// furthest beyond it, and the checks that found something. It describes how the errors lie and what
// the inputs hold. It ends with the next step and the command that repeats the case. Everything
// comes from the stored result.
#ifndef ASSAY_CLIENT_REPORT_EXPLAIN_H_
#define ASSAY_CLIENT_REPORT_EXPLAIN_H_

#include <string>
#include <vector>

#include "client/report/json.h"
#include "client/report/report.h"
#include "client/report/row.h"

namespace assay::client {

// Labelled lines, in the order they are to be read; several may have one label.
std::vector<Detail> ExplanationOf(const v1::CaseResult& result);

// The same under a heading of verdict and name; lines end with a newline.
std::string ExplanationText(const v1::CaseResult& result, bool colour);

// TestJson with the lines as "explanation": [{"label", "text"}].
Json ExplanationJson(const Run& run, const v1::CaseResult& result);

// The rule's words: "each element within what its own arithmetic may lose: …".
std::string RuleText(const v1::CaseResult& result);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_EXPLAIN_H_
