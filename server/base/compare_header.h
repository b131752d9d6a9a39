// Converts a comparison between the wire's message and plain values.
#ifndef ASSAY_SERVER_BASE_COMPARE_HEADER_H_
#define ASSAY_SERVER_BASE_COMPARE_HEADER_H_

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "assay/v1/case.pb.h"
#include "assay/v1/compare.pb.h"
#include "kernels/ops/comparison.h"

namespace assay::server {

// The comparison of a header. Appends to `errors` every field that cannot be converted or that
// Check refuses, with its path inside the header. If there are errors, the comparison must not be
// used.
Comparison FromProto(const v1::CompareHeader& header, std::vector<FieldError>& errors);

// What a refusal of PlanOf is about, with the path in CompareTensorsRequest:
// "header.inputs[1].shape".
FieldError ErrorInHeader(const absl::Status& refusal);

// The spec for the result of the comparison: formats, rule, tolerances, the operation.
v1::CaseSpec SpecOf(const Comparison& comparison);

// A result with the verdict ERROR, for a comparison whose header was accepted.
v1::CaseResult ComparisonWithoutRun(const v1::CompareHeader& header, std::string_view device,
                                    v1::Finding finding);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_COMPARE_HEADER_H_
