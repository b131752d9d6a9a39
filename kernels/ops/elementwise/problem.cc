#include "kernels/ops/elementwise/problem.h"

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr Field<ElementwiseProblem> kFields[] = {
    {"rows", &ElementwiseProblem::rows},
    {"cols", &ElementwiseProblem::cols},
    {"kind", &ElementwiseProblem::kind},
    {"broadcast", &ElementwiseProblem::broadcast},
};

}  // namespace

std::span<const Field<ElementwiseProblem>> ElementwiseProblem::Fields() { return kFields; }

std::vector<FieldError> ElementwiseProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("rows", rows, 1, kMaxExtent, errors);
  CheckRange("cols", cols, 1, kMaxExtent, errors);
  if (errors.empty()) CheckCount("rows", "a", {rows, cols}, errors);
  const bool gelu = kind == "gelu" || kind == "gelu_tanh";
  if (!has_b() && !gelu) {
    errors.push_back({"kind", Cat("must be add, silu_mul, gelu or gelu_tanh, got \"", kind, "\"")});
  } else if (broadcast && gelu) {
    errors.push_back({"broadcast", Cat("must not be set: ", kind, " has no second operand")});
  }
  return errors;
}

std::string ElementwiseProblem::Describe() const {
  return Cat(kind, " ", rows, "x", cols, broadcast ? " broadcast" : "");
}

ElementwiseKind ElementwiseProblem::kind_of() const {
  if (kind == "silu_mul") return ElementwiseKind::kSiluMul;
  if (kind == "gelu") return ElementwiseKind::kGelu;
  return kind == "gelu_tanh" ? ElementwiseKind::kGeluTanh : ElementwiseKind::kAdd;
}

}  // namespace assay::kernels
