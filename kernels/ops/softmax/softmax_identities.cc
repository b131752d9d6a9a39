#include "kernels/ops/softmax/softmax_identities.h"

#include <algorithm>
#include <utility>

#include "kernels/numerics/bound.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/softmax/problem.h"
#include "kernels/ops/softmax/softmax_bound.h"
#include "kernels/ops/softmax/softmax_reference.h"

namespace assay {
namespace {

constexpr std::int64_t kRows = 16;  // enough for a probe of a row's arithmetic

}  // namespace

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
  // The largest power of two below which every integer is one of the format's, at most
  // what exp overflows at with room to spare. Weights are of all sizes, and not of the usual alone.
  const double integers = 2 / Info(c.dtype).machine_epsilon;
  const double spread = std::min(40.0, integers / 2);
  const double shift = std::min(c.dtype == DType::kF64 ? 1000.0 : 120.0, integers - spread);
  const Pattern data = {PatternKind::kIntegers, shift - spread, shift + spread};
  // The maximum must be that of the row, and of the whole row: a factor exp(far) off, nothing is
  // left, or everything overflows. Each row of the one holds one value, far from the others'; of
  // the other only the last column counts.
  const double far = c.dtype == DType::kF64 ? 1000.0 : 200.0;
  const Pattern last = {PatternKind::kOneLarge, far, -1};
  SoftmaxProblem few = std::get<SoftmaxProblem>(c.problem);
  // A user's kernel may be made for its extents.
  const bool ours = c.kernel_file.empty() && c.elsewhere == nullptr;
  if (ours && few.rows > kRows) few.rows = kRows;
  // So far below 0 as rounding allows: who begins the maximum at -1e4 has nothing left, either.
  constexpr double kLowest = 1e5;
  constexpr std::int64_t kSteps = 63;  // after which the pattern begins again
  const double lowest = std::min(kLowest, 0.9 * Info(c.dtype).max_finite);
  const auto steps = static_cast<double>(std::clamp<std::int64_t>(few.rows - 1, 1, kSteps));
  const Pattern apart = {PatternKind::kRowVary, -std::max(far, std::floor(lowest / steps)), 0};
  KernelProbe rows = {"rows-apart", ProbeCase(c, few, ToString(apart), /*exact=*/false)};
  if (few.rows == 1) rows.skipped = "there is one row";
  // The diagnosis goes by the last that fails: whoever subtracts no maximum fails all.
  return {std::move(rows),
          {"last-column", ProbeCase(c, few, ToString(last), /*exact=*/false)},
          {"shift", ProbeCase(c, c.problem, ToString(data), /*exact=*/false)}};
}

}  // namespace assay
