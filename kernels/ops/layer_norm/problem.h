// layer_norm: y = (x − mean)/sqrt(var + eps)·weight + bias along the last axis;
// the RMS form is x/sqrt(mean(x²) + eps)·weight. x and output y are [rows, cols],
// weight and bias [cols], fp32 whatever x is, only where affine (no bias where rms).
// FLOPs counted: 8 an element.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_PROBLEM_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_PROBLEM_H_

#include "kernels/ops/field.h"

namespace assay {

struct LayerNormProblem {
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  double eps = 1e-5;
  bool affine = false;
  bool rms = false;
  bool compensated = false;  // asks for Kahan sums; a kernel without refuses

  static constexpr std::string_view kOp = "layer_norm";
  static std::span<const Field<LayerNormProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "1024x4096 affine"
};

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_PROBLEM_H_
