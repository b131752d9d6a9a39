// A comparison as the wire says it, and as plain values.
#ifndef ASSAY_SERVER_BASE_COMPARE_HEADER_H_
#define ASSAY_SERVER_BASE_COMPARE_HEADER_H_

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

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_COMPARE_HEADER_H_
