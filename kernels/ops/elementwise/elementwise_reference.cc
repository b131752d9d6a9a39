#include "kernels/ops/elementwise/elementwise_reference.h"

#include <algorithm>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/ops/common/planning.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {

ElementwiseTerms MakeElementwiseTerms(const ElementwiseProblem& problem, DType input,
                                      const Plan& plan) {
  const Arithmetic a = ArithmeticOf(input);
  const bool flushes = plan.flushes_subnormals;
  const double held = plan.intermediate_step / 2;
  return {problem.kind_of(),
          a.times * a.u,
          a.min_normal + held,
          (flushes ? a.min_normal : 0.5 * a.quantum) + held,
          flushes ? a.min_normal : 0.0,
          plan.intermediate_roundoff};
}

void ElementwiseReferenceAt(const ElementwiseProblem& problem, const ElementwiseTerms& terms,
                            const HostInputs& inputs, std::span<const std::int64_t> indices,
                            double* value, double* allowance) {
  std::vector<double> a, b;
  for (std::size_t i = 0; i < indices.size();) {
    // Elements beside one another in a row are read together.
    std::size_t last = i + 1;
    while (last < indices.size() && indices[last] == indices[last - 1] + 1 &&
           indices[last] % problem.cols != 0) {
      ++last;
    }
    a.resize(last - i);
    b.assign(last - i, 0.0);
    const auto count = static_cast<std::int64_t>(last - i);
    inputs.Read(0, indices[i], count, a.data());
    if (problem.has_b()) {
      inputs.Read(1, problem.broadcast ? indices[i] % problem.cols : indices[i], count, b.data());
    }
    for (std::size_t j = 0; j < a.size(); ++j, ++i) {
      const ElementwiseElement element = MakeElementwiseElement(terms, a[j], b[j]);
      value[i] = element.value;
      if (allowance != nullptr) allowance[i] = element.allowance;
    }
  }
}

void ElementwiseReferenceCpu(const ElementwiseProblem& problem, const ElementwiseTerms& terms,
                             std::span<const TensorView> inputs, double* value, double* allowance) {
  constexpr std::int64_t kPiece = 512;
  constexpr std::int64_t kGrain = 1 << 12;  // elements worth a thread
  const std::int64_t across = (problem.cols + kPiece - 1) / kPiece;
  ParallelFor(
      problem.rows * across, std::max<std::int64_t>(1, kGrain / std::min(kPiece, problem.cols)),
      [&](std::int64_t begin, std::int64_t end) {
        double a[kPiece], b[kPiece] = {};
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = i / across, col = i % across * kPiece;
          const std::int64_t n = std::min(kPiece, problem.cols - col);
          LoadDoubles(inputs[0].dtype, inputs[0].data, row * inputs[0].extents.ld + col, n, a);
          if (problem.has_b()) {
            const std::int64_t from = problem.broadcast ? 0 : row * inputs[1].extents.ld;
            LoadDoubles(inputs[1].dtype, inputs[1].data, from + col, n, b);
          }
          for (std::int64_t j = 0; j < n; ++j) {
            const ElementwiseElement element = MakeElementwiseElement(terms, a[j], b[j]);
            value[row * problem.cols + col + j] = element.value;
            if (allowance != nullptr) allowance[row * problem.cols + col + j] = element.allowance;
          }
        }
      });
}

}  // namespace assay::kernels
