// Converts between the wire's messages and the kernels' plain structs. No other file does.
//
// Problems are converted through their field tables. A field is named once in the proto and once in
// the struct, and a test holds the two together.
#ifndef ASSAY_SERVER_BASE_WIRE_H_
#define ASSAY_SERVER_BASE_WIRE_H_

#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"
#include "kernels/judge/outcome.h"
#include "kernels/ops/case.h"
#include "kernels/providers/provider.h"

namespace assay::server {

// The case of a spec. It does not fill in defaults. Appends to `errors` every field that cannot be
// converted or that Check refuses, with its path inside the case. If there are errors, the case
// must not be used.
Case FromProto(const v1::CaseSpec& spec, std::vector<FieldError>& errors);

// The spec of a case.
v1::CaseSpec ToProto(const Case& c);
// The same with every field of the problem, as a kernel gets it (Op::Resolved).
v1::CaseSpec ToProtoResolved(const Case& c);

// The result of a case that ran. index, start_time and duration are not set.
v1::CaseResult ToResult(const Case& c, const CaseOutcome& outcome, std::string_view device);

// The result of a case that did not run: UNSUPPORTED, ERROR or SKIPPED, with one finding.
v1::CaseResult ResultWithoutRun(const v1::CaseSpec& spec, std::string_view device,
                                v1::Verdict verdict, v1::Finding finding);

// The command that runs the case again: "assay run gemm --m 64 …". The spec must have its defaults
// filled in.
std::string ReproLine(const v1::CaseSpec& spec, std::string_view device);

// The kernels of the registry as messages, sorted by operator and provider.
std::vector<v1::Kernel> ListKernels(const Registry& registry);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_WIRE_H_
