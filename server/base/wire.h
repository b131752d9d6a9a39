// The one place where the wire's messages and the kernels' plain structs meet.
// Problems are converted through their field tables, so that a field is named
// once in the proto and once in the struct, and a test holds the two together.
#ifndef ASSAY_SERVER_BASE_WIRE_H_
#define ASSAY_SERVER_BASE_WIRE_H_

#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"
#include "kernels/ops/case.h"
#include "kernels/providers/provider.h"
#include "kernels/validate/outcome.h"

namespace assay {

// The case of a spec, defaults left unsaid. What cannot be converted, and
// everything Check finds, is appended to `errors` (paths inside the case); then
// the case must not be used.
Case FromProto(const v1::CaseSpec& spec, std::vector<FieldError>& errors);

// The spec of a case.
v1::CaseSpec ToProto(const Case& c);

// The result of a case that ran: spec, statistics, findings, repro; all but
// index, start_time and duration.
v1::CaseResult ToResult(const Case& c, const CaseOutcome& outcome, std::string_view device);

// A result without a run: UNSUPPORTED, ERROR or SKIPPED with one finding.
v1::CaseResult ResultWithoutRun(const v1::CaseSpec& spec, std::string_view device,
                                v1::Verdict verdict, std::string_view reason,
                                std::string_view message);

// "assay run gemm --m 64 …" for a spec whose defaults are filled in.
std::string ReproLine(const v1::CaseSpec& spec, std::string_view device);

// The registry's table as messages, sorted by op, provider.
std::vector<v1::Kernel> ListKernels(const Registry& registry);

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_WIRE_H_
