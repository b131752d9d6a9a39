#include "kernels/ops/softmax/softmax_reference.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/ops/common/row_depth.h"

namespace assay::inline kernels {

namespace {

// A case names the format of exponentials and results. A kernel gives only the roundoff of its
// exponentials' format, which is the input's or the output's, so the larger step counts.
HeldFormat HeldFormatOf(DType input, const Plan& plan) {
  if (!(plan.intermediate_roundoff > 0)) return {};
  const double of_output = Info(plan.output.dtype).min_subnormal;
  const double named = plan.intermediate_step;
  const double step = named > 0 ? named : std::max(Info(input).min_subnormal, of_output);
  return {plan.intermediate_roundoff, step / 2, of_output < named ? named / 2 : 0};
}

}  // namespace

SoftmaxTerms MakeSoftmaxTerms(const SoftmaxProblem& problem, DType input, const Plan& plan) {
  return {ArithmeticOf(input), HeldFormatOf(input, plan), static_cast<double>(problem.cols),
          plan.sum_depth};
}

SoftmaxDeviation MakeSoftmaxDeviation(const SoftmaxProblem& problem, DType input,
                                      const Plan& plan) {
  const Arithmetic arithmetic = ArithmeticOf(input);
  const HeldFormat held = HeldFormatOf(input, plan);
  return {static_cast<double>(problem.cols),
          arithmetic.u,
          plan.intermediate_roundoff,
          DistinctAddends(plan.inputs[0].pattern, input, Addends::kExponentials, problem.cols,
                          arithmetic.u),
          kFlushedExp * arithmetic.min_normal + held.result_half_step,
          OutputStepsOf(plan.output.dtype),
          held.half_step};
}

void SoftmaxReferenceAt(const SoftmaxProblem& problem, const SoftmaxTerms& terms,
                        const HostInputs& inputs, std::span<const std::int64_t> indices,
                        double* value, double* allowance) {
  const std::int64_t cols = problem.cols;
  std::vector<double> x(static_cast<std::size_t>(cols));
  for (std::size_t i = 0; i < indices.size();) {
    const std::int64_t row = indices[i] / cols;
    inputs.Read(0, row * cols, cols, x.data());
    SoftmaxRow of;
    of.max = -std::numeric_limits<double>::infinity();
    for (double v : x) of.max = std::max(of.max, v);  // a NaN spreads through the sum
    for (double v : x) of.sum += std::exp(v - of.max);
    const double unit = terms.arithmetic.u * of.sum;
    for (double v : x) of.lost += LostAddend(std::exp(v - of.max), unit);
    const double roundings = SoftmaxRowRoundings(terms, of);
    for (; i < indices.size() && indices[i] / cols == row; ++i) {
      const double v = x[static_cast<std::size_t>(indices[i] % cols)];
      value[i] = std::exp(v - of.max) / of.sum;
      allowance[i] = SoftmaxAllowance(terms, value[i], v, of, roundings);
    }
  }
}

}  // namespace assay::kernels
