#include "kernels/ops/softmax/softmax_reference.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace assay {

void SoftmaxReferenceAt(const SoftmaxProblem& problem, DType input, double intermediate,
                        const HostInputs& inputs, std::span<const std::int64_t> indices,
                        double* value, double* allowance) {
  const Arithmetic arithmetic = ArithmeticOf(input);
  const std::int64_t cols = problem.cols;
  std::vector<double> x(static_cast<std::size_t>(cols));
  for (std::size_t i = 0; i < indices.size();) {
    const std::int64_t row = indices[i] / cols;
    inputs.Read(0, row * cols, cols, x.data());
    double max = -std::numeric_limits<double>::infinity();
    for (double v : x) max = std::max(max, v);  // a NaN spreads through the sum
    double sum = 0.0;
    for (double v : x) sum += std::exp(v - max);
    for (; i < indices.size() && indices[i] / cols == row; ++i) {
      const double v = x[static_cast<std::size_t>(indices[i] % cols)];
      value[i] = std::exp(v - max) / sum;
      allowance[i] = SoftmaxAllowance(arithmetic, intermediate, value[i], v, max, cols);
    }
  }
}

}  // namespace assay
