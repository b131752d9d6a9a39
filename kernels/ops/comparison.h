// A comparison of a user's own tensors. It is plain values, checked before anything is allocated.
//
// `actual` is the tensor under test. It is held against one of three: another tensor, a stored
// digest, or the operation that made it with its operands, from which the reference is computed.
// With an operation a second tensor may be given too; it is then held against the
// reference itself.
#ifndef ASSAY_KERNELS_OPS_COMPARISON_H_
#define ASSAY_KERNELS_OPS_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/numerics/dtype.h"
#include "kernels/ops/case.h"
#include "kernels/ops/field.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// Most bytes of one piece of a tensor, as they are sent.
inline constexpr std::int64_t kMostPieceBytes = std::int64_t{1} << 20;

// A tensor as it is sent: dense, row-major, outermost extent first.
struct TensorSpec {
  DType dtype = DType::kUnspecified;
  std::vector<std::int64_t> shape;

  // Elements; INT64_MAX where the product is beyond it. 1 for a scalar's empty shape.
  std::int64_t count() const;
  // [bytes] of the packed elements. Requires a count of at most kMaxElements.
  std::int64_t bytes() const { return StorageBytes(dtype, count()); }
};

struct Comparison {
  TensorSpec actual;
  std::optional<TensorSpec> expected;
  std::string expected_digest;  // 32 hexadecimal digits, raw or canonical; empty: none
  // Criterion, tolerances, accumulations and split_k. With an operation also its
  // problem and the formats of its inputs and output.
  Case rule;
  bool has_operation = false;
  std::vector<TensorSpec> inputs;  // the operation's, in the order of its operands

  bool empty() const { return actual.count() == 0; }
  // The rule where none is named: the operation's bound; tolerances or a distance that
  // were given; bitwise for a digest; else derived from the formats.
  Criterion criterion() const;
  // The tensor that the wire numbers so: 0 actual, 1 expected, 2 and up the inputs;
  // nullptr where there is none.
  const TensorSpec* tensor(std::int64_t number) const;
  // One more than the last number.
  int numbers() const { return 2 + static_cast<int>(inputs.size()); }
};

// Everything wrong with a comparison that needs no device; field names are those of
// assay.v1.CompareHeader. The operation's own faults are not looked for: see Check in
// case.h.
std::vector<FieldError> Check(const Comparison& c);

// The case that a comparison is judged as, its criterion said.
Case JudgedCase(const Comparison& c);

// The plan it is judged by: the operation's, held to the tensors' formats and shapes,
// or one made of the formats alone. A Refusal (refusal.h) of "inputs[1].shape" where the
// operands are not the operation's. Requires that Check found nothing.
absl::StatusOr<Plan> PlanOf(const Comparison& c);

// [bytes] of a device's memory that it takes: the tensors, and FP64 reference and
// allowance an element where they are needed. Saturates.
std::int64_t ArenaBytes(const Comparison& c, const Plan& plan);

// "[4096,4096]".
std::string ShapeText(std::span<const std::int64_t> shape);

// "fp16 [4096,4096] against fp32".
std::string DefaultName(const Comparison& c);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMPARISON_H_
