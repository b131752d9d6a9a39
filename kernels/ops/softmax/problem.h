// softmax: y = softmax(x) along the last axis. x and output y are [rows, cols].
// FLOPs counted: 5 an element (max, subtract, exp, add, divide), the customary figure.
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_PROBLEM_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_PROBLEM_H_

#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct SoftmaxProblem {
  std::int64_t rows = 1;
  std::int64_t cols = 0;

  static constexpr std::string_view kOp = "softmax";
  static std::span<const Field<SoftmaxProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "1x2048"
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_PROBLEM_H_
