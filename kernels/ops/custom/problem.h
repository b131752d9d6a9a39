// custom: an operator of the caller's own. The problem names its tensors and numbers, and nothing
// else is known of it: what is right, a kernel of the caller's says (kernels/ops/own_reference.h).
#ifndef ASSAY_KERNELS_OPS_CUSTOM_PROBLEM_H_
#define ASSAY_KERNELS_OPS_CUSTOM_PROBLEM_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/field.h"

namespace assay::inline kernels {

// "x=64x1000", or "scale=64:fp32", as the caller wrote it.
struct CustomTensor {
  std::string_view name;  // inside the problem's own text
  std::vector<std::int64_t> extents;
  DType dtype = DType::kUnspecified;  // unspecified: the case's
};

struct CustomProblem {
  // Lists, of which the elements keep their place in memory when the problem is moved: plans point
  // to the names in them.
  WordList input;   // "x=64x1000", in the kernel's order
  WordList out;     // one: "y=64x1000"
  WordList scalar;  // "eps=1e-5"

  static constexpr std::string_view kOp = "custom";
  static std::span<const Field<CustomProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "x=64x1000 w=1000 y=64x1000 eps=1e-5"

  // Of a problem that Check accepts.
  std::vector<CustomTensor> Inputs() const;
  CustomTensor Output() const;
  std::vector<std::pair<std::string, double>> Scalars() const;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CUSTOM_PROBLEM_H_
