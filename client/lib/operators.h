// Reads the names, the problem messages and the facts of the operators from the API
// (assay.v1.operator_info). The client names no operator: it asks here.
#ifndef ASSAY_CLIENT_LIB_OPERATORS_H_
#define ASSAY_CLIENT_LIB_OPERATORS_H_

#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/operator.pb.h"
#include "google/protobuf/descriptor.h"

namespace assay::client {

// The operators, in the order of the proto: "gemm", "conv", ….
std::vector<std::string> OperatorNames();

// The field of CaseSpec that holds the operator's problem; nullptr for an unknown operator.
const google::protobuf::FieldDescriptor* ProblemField(std::string_view op);

// The operator of a case, "gemm". Empty if the case has none.
std::string OpOf(const v1::CaseSpec& spec);

// The facts of an operator. All are absent for an unknown one.
const v1::OperatorInfo& InfoOf(std::string_view op);
const v1::OperatorInfo& InfoOf(const v1::CaseSpec& spec);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_OPERATORS_H_
