#include "kernels/ops/layer_norm/problem.h"

#include <limits>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr Field<LayerNormProblem> kFields[] = {
    {"rows", &LayerNormProblem::rows},
    {"cols", &LayerNormProblem::cols},
    {"eps", &LayerNormProblem::eps},
    {"affine", &LayerNormProblem::affine},
    {"rms", &LayerNormProblem::rms},
    {"compensated", &LayerNormProblem::compensated},
    {"weight_format", &LayerNormProblem::weight_format},
};

}  // namespace

std::span<const Field<LayerNormProblem>> LayerNormProblem::Fields() { return kFields; }

std::vector<FieldError> LayerNormProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("rows", rows, 1, kMaxExtent, errors);
  CheckRange("cols", cols, 1, kMaxExtent, errors);
  if (!(eps >= 0.0 && eps <= static_cast<double>(std::numeric_limits<float>::max()))) {
    errors.push_back({"eps", Cat("must be a finite fp32 number, not negative, got ", eps)});
  }
  if (weight_format != "fp32" && weight_format != "input") {
    errors.push_back({"weight_format", Cat("must be fp32 or input, got \"", weight_format, "\"")});
  } else if (weight_format != "fp32" && !affine) {
    errors.push_back({"weight_format", "needs affine: there is no weight"});
  }
  if (errors.empty()) CheckCount("rows", "x", {rows, cols}, errors);
  return errors;
}

std::string LayerNormProblem::Describe() const {
  std::string text = Cat(rows, "x", cols);
  if (rms) Append(&text, " rms");
  if (affine) Append(&text, " affine");
  if (weight_format != "fp32") Append(&text, " weight-format ", weight_format);
  if (compensated) Append(&text, " compensated");
  if (eps != 1e-5) Append(&text, " eps ", eps);
  return text;
}

}  // namespace assay::kernels
