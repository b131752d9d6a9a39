// A comparison as the wire says it, and as plain values.
#ifndef ASSAY_SERVER_BASE_COMPARE_HEADER_H_
#define ASSAY_SERVER_BASE_COMPARE_HEADER_H_

#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/compare.pb.h"
#include "kernels/ops/comparison.h"

namespace assay {

// The comparison of a header. What cannot be converted, and everything Check finds, is
// appended to `errors` (paths inside the header); then it must not be used.
Comparison FromProto(const v1::CompareHeader& header, std::vector<FieldError>& errors);

// What a result says of the comparison: formats, rule, tolerances, the operation.
v1::CaseSpec SpecOf(const Comparison& comparison);

// An ERROR in place of the result of a comparison whose header was accepted.
v1::CaseResult ComparisonWithoutRun(const v1::CompareHeader& header, std::string_view device,
                                    std::string_view reason, std::string_view message);

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_COMPARE_HEADER_H_
