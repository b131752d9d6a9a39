#include "kernels/ops/softmax/problem.h"

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr Field<SoftmaxProblem> kFields[] = {
    {"rows", &SoftmaxProblem::rows},
    {"cols", &SoftmaxProblem::cols},
};

}  // namespace

std::span<const Field<SoftmaxProblem>> SoftmaxProblem::Fields() { return kFields; }

std::vector<FieldError> SoftmaxProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("rows", rows, 1, kMaxExtent, errors);
  CheckRange("cols", cols, 1, kMaxExtent, errors);
  if (errors.empty()) CheckCount("rows", "x", {rows, cols}, errors);
  return errors;
}

std::string SoftmaxProblem::Describe() const { return Cat(rows, "x", cols); }

}  // namespace assay::kernels
