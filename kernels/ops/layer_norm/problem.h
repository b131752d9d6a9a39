// layer_norm: y = (x − mean)/sqrt(var + eps)·weight + bias along the last axis;
// the RMS form is x/sqrt(mean(x²) + eps)·weight. x and output y are [rows, cols],
// weight and bias [cols] only where affine (no bias where rms). They are fp32 whatever x is, or
// in the format of x, as frameworks keep them.
// FLOPs counted: 8 an element.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_PROBLEM_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_PROBLEM_H_

#include "kernels/numerics/dtype.h"
#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct LayerNormProblem {
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  double eps = 1e-5;
  bool affine = false;
  bool rms = false;
  bool compensated = false;            // asks for Kahan sums; a kernel without refuses
  std::string weight_format = "fp32";  // of weight and bias; or "input": that of x

  static constexpr std::string_view kOp = "layer_norm";
  static std::span<const Field<LayerNormProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "1024x4096 affine"

  // The format of weight and bias for an x of format `input`.
  DType columns(DType input) const { return weight_format == "input" ? input : DType::kF32; }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_PROBLEM_H_
