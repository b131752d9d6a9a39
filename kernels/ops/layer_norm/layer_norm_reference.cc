#include "kernels/ops/layer_norm/layer_norm_reference.h"

#include <vector>

#include "kernels/ops/common/row_depth.h"

namespace assay::inline kernels {

LayerNormTerms MakeLayerNormTerms(const LayerNormProblem& problem, DType input, const Plan& plan) {
  const Arithmetic arithmetic = ArithmeticOf(input);
  return {static_cast<double>(problem.cols),
          plan.sum_depth,
          KernelScalar(input, problem.eps),
          arithmetic.times * arithmetic.u,
          problem.rms,
          problem.affine,
          plan.intermediate_roundoff / (arithmetic.times * arithmetic.u),
          plan.intermediate_step / 2 / (arithmetic.times * arithmetic.u),
          arithmetic.quantum / (arithmetic.times * arithmetic.u),
          arithmetic.min_normal};
}

LayerNormDeviation MakeLayerNormDeviation(const LayerNormProblem& problem, DType input,
                                          const Plan& plan) {
  LayerNormDeviation model;
  model.n = static_cast<double>(problem.cols);
  model.eps = KernelScalar(input, problem.eps);
  model.u = ArithmeticOf(input).u;
  model.min_normal = ArithmeticOf(input).min_normal;
  const auto distinct = [&](Addends addends) {
    return DistinctAddends(plan.inputs[0].pattern, input, addends, problem.cols, model.u);
  };
  model.distinct = distinct(Addends::kElements);
  model.distinct_squares = distinct(problem.rms ? Addends::kOwnSquares : Addends::kSquares);
  model.rms = problem.rms;
  model.affine = problem.affine;
  model.steps = OutputStepsOf(plan.output.dtype);
  return model;
}

void LayerNormReferenceAt(const LayerNormProblem& problem, const LayerNormTerms& terms,
                          const HostInputs& inputs, std::span<const std::int64_t> indices,
                          double* value, double* allowance) {
  const std::int64_t cols = problem.cols;
  const std::size_t width = static_cast<std::size_t>(cols);
  std::vector<double> x(width), weight(width, 1.0), bias(width, 0.0);
  if (problem.affine) inputs.Read(1, 0, cols, weight.data());
  if (problem.affine && !problem.rms) inputs.Read(2, 0, cols, bias.data());
  for (std::size_t i = 0; i < indices.size();) {
    const std::int64_t first = indices[i] / cols;
    inputs.Read(0, first * cols, cols, x.data());
    double sum = 0.0, absolute = 0.0, squares = 0.0;
    const double origin = LayerNormOrigin(problem, x.data());
    for (double v : x) {
      sum += v - origin;
      absolute += std::abs(v);
    }
    const double center = problem.rms ? 0.0 : sum / static_cast<double>(cols);
    for (double v : x) squares += (v - origin - center) * (v - origin - center);
    const LayerNormRow row = MakeLayerNormRow(terms, origin, sum, absolute, squares);
    for (; i < indices.size() && indices[i] / cols == first; ++i) {
      const std::size_t col = static_cast<std::size_t>(indices[i] % cols);
      const LayerNormElement element =
          MakeLayerNormElement(terms, row, x[col], weight[col], bias[col]);
      value[i] = element.value;
      allowance[i] = element.allowance;
    }
  }
}

}  // namespace assay::kernels
