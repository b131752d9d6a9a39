// What the daemon reads off a case without knowing its problem.
#ifndef ASSAY_SERVER_BASE_CASE_SPEC_H_
#define ASSAY_SERVER_BASE_CASE_SPEC_H_

#include <string>
#include <string_view>

#include "assay/v1/case.pb.h"

namespace assay {

// "gemm", or empty where the spec has no problem: the oneof's member is named as the
// operator.
std::string OpOf(const v1::CaseSpec& spec);

// Whether a provider's kernels are wrong on purpose ("planted/…"): they page nobody.
bool IsPlanted(std::string_view provider);

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_CASE_SPEC_H_
