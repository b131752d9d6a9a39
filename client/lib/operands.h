// Derives the extents of an operation from the shapes of its operands.
#ifndef ASSAY_CLIENT_LIB_OPERANDS_H_
#define ASSAY_CLIENT_LIB_OPERANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "assay/v1/case.pb.h"

namespace assay::client {

// An operand: who it is in messages, and its extents, outermost first.
struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

// "[2,3]".
std::string ShapeOf(const std::vector<std::int64_t>& shape);

// Fills in the fields of the spec's problem that follow from the operands, in the operator's
// order. How they follow stands in the API: assay.v1.OperandInfo.axes. The problem is set, and
// fields that it already has stay. INVALID_ARGUMENT names the operand that cannot be one. The
// daemon checks whether all of them fit together.
absl::Status FillExtents(const std::vector<NamedShape>& operands, v1::CaseSpec& spec);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_OPERANDS_H_
