#include "kernels/ops/softmax/softmax_identities.h"

#include <algorithm>

#include "kernels/numerics/bound.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/softmax/problem.h"
#include "kernels/ops/softmax/softmax_bound.h"
#include "kernels/ops/softmax/softmax_reference.h"

namespace assay {
std::vector<Identity> CheckSoftmaxRows(const Case& c, const Plan& plan,
                                       std::span<const TensorView> inputs, const TensorView& output,
                                       const ReferenceBuffers& reference) {
  const std::int64_t cols = std::get<SoftmaxProblem>(c.problem).cols;
  const SoftmaxTerms terms = MakeSoftmaxTerms(std::get<SoftmaxProblem>(c.problem), c.dtype, plan);
  const OutputRounding rounding = OutputRoundingOf(output.dtype, plan.flushes_subnormals);
  return CheckRowsOfSoftmax(output, rounding, reference, [&](std::int64_t row) {
    std::vector<double> x(static_cast<std::size_t>(cols));
    LoadDoubles(c.dtype, inputs[0].data, row * inputs[0].extents.ld, cols, x.data());
    const double max = *std::max_element(x.begin(), x.end());
    const double* r = reference.value + row * cols;
    double spread = 0;
    for (std::size_t i = 0; i < x.size(); ++i) spread += SoftmaxSpread(r[i], x[i], max);
    return SoftmaxSumBound(terms.arithmetic, rounding, terms.held, cols, spread);
  });
}

std::vector<KernelProbe> SoftmaxProbes(const Case& c) {
  constexpr double kSpread = 8;
  // The largest power of two below which every integer is one of the format's, at most
  // what exp overflows at with room to spare.
  const double integers = 2 / Info(c.dtype).machine_epsilon;
  const double shift = std::min(c.dtype == DType::kF64 ? 1000.0 : 120.0, integers - kSpread);
  const Pattern data = {PatternKind::kIntegers, shift - kSpread, shift + kSpread};
  return {{"shift", ProbeCase(c, c.problem, ToString(data), /*exact=*/false)}};
}

}  // namespace assay
