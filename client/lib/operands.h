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

// Fills in the extents that follow from the operands, in the operator's order, where
// the spec's problem (set, with what the user said of it) leaves them out:
//
//   gemm        A [..., m, k] and B [..., k, n], stored transposed where it says so
//   conv        input [n, c, spatial...], weights [f, c/groups, kernel...]; nhwc alike
//   attention   q [..., heads, seq, dim], k and v [..., kv_heads, kv_seq, dim], mask
//   softmax, layer_norm   x [..., cols]; weight and bias make layer_norm affine
//   copy        x
//   dequant_softmax   A [..., k], W [k, n], stored transposed where it says so, scale [n]
//
// Outer axes become the batch, or rows. INVALID_ARGUMENT names the operand that cannot
// be one. Whether all fit together is the daemon's to check.
absl::Status FillExtents(const std::vector<NamedShape>& operands, v1::CaseSpec& spec);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_OPERANDS_H_
