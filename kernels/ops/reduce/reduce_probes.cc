#include "kernels/ops/reduce/reduce_probes.h"

#include <algorithm>
#include <variant>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/pattern.h"
#include "kernels/ops/common/probe_data.h"

namespace assay {
namespace {

// Numbers from 1 to 2^bits, 2.5 on average.
constexpr double kBits = 2, kLargest = 4;
// Half of what is kept on average. The number that is kept stays below twice its mean by more than
// ten deviations, for the mean is above a hundred.
constexpr double kHalf = 0.5;

Pattern SummedData(std::int64_t length, DType input, DType output) {
  // Whole numbers up to here are exact in the narrowest accumulator of the format.
  const double held = MayBeSummedNarrowly(input) ? 1 / kNarrowestRoundoff : 0x1p24;
  const double terms = std::min(held, Info(output).max_finite) / kLargest;
  const auto n = static_cast<double>(length);
  return {PatternKind::kExactInts, n <= terms ? 1.0 : kHalf * terms / n, kBits};
}

}  // namespace

std::vector<KernelProbe> ReduceProbes(const Case& c) {
  const auto& p = std::get<ReduceProblem>(c.problem);
  if (p.kind_of() == ReduceKind::kSum) {
    const Pattern data = SummedData(p.Split().length, c.dtype, OutputType(c));
    return {{"exact-integers", ProbeCase(c, p, ToString(data), /*exact=*/true)}};
  }
  const Pattern data = {PatternKind::kIntegers, -8, -1};
  return {{"negative-integers", ProbeCase(c, p, ToString(data), /*exact=*/true)}};
}

}  // namespace assay
