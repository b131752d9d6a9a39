#include "kernels/ops/reduce/reduce_probes.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/pattern.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/probe_data.h"

namespace assay::inline kernels {
namespace {

// Numbers from 1 to 2^bits, 2.5 on average.
constexpr double kBits = 2, kLargest = 4;
// Half of what is kept on average. The number that is kept stays below twice its mean by more than
// ten deviations, for the mean is above a hundred.
constexpr double kHalf = 0.5;

// Whole numbers up to here are exact in the narrowest accumulator of the format.
double HeldExactly(DType input) {
  return MayBeSummedNarrowly(input) ? 1 / kNarrowestRoundoff : 0x1p24;
}

Pattern SummedData(std::int64_t length, DType input, DType output) {
  // Sums have more digits than 16 bits hold, and the smallest number, whose negative there is not,
  // is among them.
  if (Info(input).is_integer) return {PatternKind::kIntegers, -128, -64};
  const double held = HeldExactly(input);
  const double terms = std::min(held, Info(output).max_finite) / kLargest;
  const auto n = static_cast<double>(length);
  return {PatternKind::kExactInts, n <= terms ? 1.0 : kHalf * terms / n, kBits};
}

// Whether the output's rounding may hide a lost element in a sum of numbers from 1 to 4.
bool RoundingHides(std::int64_t length, DType output) {
  constexpr double kMean = 2.5;
  return Info(output).unit_roundoff * kMean * static_cast<double>(length) > 0.5;
}

// A power of two of either sign. They cancel, so that sums have few digits and their rounding is
// fine. It is as large as the formats allow: no order of a sum overflows in fp32, and no whole sum
// in the output, which is below eight deviations. Where not even the number of signs is exact, in
// long sums of 8-bit floats, some are +1 or -1 and the others 0.
Pattern SignedData(std::int64_t length, DType input, DType output) {
  constexpr double kDeviations = 6, kToOverflow = 8;
  const auto n = static_cast<double>(length);
  const double most = HeldExactly(input) / kDeviations;
  const double density = most * most / n;
  if (density < 1) return {PatternKind::kExactSparse, density, 0};
  const double range = std::min(Info(input).max_finite, Info(DType::kF32).max_finite);
  const double whole = Info(output).max_finite / std::min(n, kToOverflow * std::sqrt(n));
  const double largest = std::min({range, Info(DType::kF32).max_finite / n, whole});
  return {PatternKind::kExtremes, std::exp2(std::floor(std::log2(largest))), 0};
}

// Numbers that differ in their last bit, as large as input and output hold: a comparison in fewer
// bits takes them for equal. 8-bit formats have the whole numbers that use all bits.
Pattern CloseData(DType input, DType output) {
  constexpr double kValues = 16, kSteps = 2.5;
  const FormatInfo& f = Info(input);
  if (f.is_integer || f.storage_bits <= 8) {
    const double above = f.is_integer ? f.max_finite + 1 : 2 / f.machine_epsilon;
    return {PatternKind::kIntegers, above - kValues, above - 1};
  }
  double power = std::min(LargestPowerOfTwo(input), LargestPowerOfTwo(DType::kF32));
  if (!Info(output).is_integer) power = std::min(power, LargestPowerOfTwo(output));
  return {PatternKind::kNearConstant, 1.75 * power, kSteps * f.machine_epsilon * power};
}

// As far below 0 as the formats go, with room for a rounding. Integers of a maximum are all one
// above the lowest, which the output may hold already; an argmax has others beside them.
Pattern FarBelow(DType input, DType output, ReduceKind kind) {
  if (Info(input).is_integer) {
    if (kind == ReduceKind::kMax) return {PatternKind::kIntegers, -127, -127};
    return {PatternKind::kIntegers, -128, -64};
  }
  const double range = std::min(Info(input).max_finite, Info(DType::kF32).max_finite);
  const double lowest =
      -0.98 * (Info(output).is_integer ? range : std::min(range, Info(output).max_finite));
  return {PatternKind::kUniform, lowest, 0.9 * lowest};
}

// The problem with at least so many slices, or as many as `most` elements have room for, if there
// is another axis along which they fit.
ReduceProblem WithSlices(const ReduceProblem& p, std::int64_t least, std::int64_t most) {
  const ReduceShape s = p.Split();
  const std::int64_t wanted = std::min(least, most / s.length);
  const std::int64_t slices = s.outer * s.inner;
  if (p.extents.size() < 2 || slices >= wanted) return p;
  ReduceProblem several = p;
  std::int64_t& extent = several.extents[p.Axis() == 0 ? 1 : 0];
  const std::int64_t others = slices / extent;
  extent = (wanted + others - 1) / others;
  return several;
}

// A sum may lose as many numbers above 0 as below.
ReduceProblem WithSeveralSlices(const ReduceProblem& p) {
  return WithSlices(p, 16, std::int64_t{1} << 24);
}

// Of twice as many slices as a slice has elements, each element is the largest of one.
ReduceProblem WithASliceForEachElement(const ReduceProblem& p) {
  return WithSlices(p, 2 * p.Split().length, std::int64_t{1} << 21);
}

// A sum with a NaN is NaN. A maximum need not be: fmax leaves NaN out.
void AddReduceNanProbe(const Case& c, const Plan& plan, std::vector<KernelProbe>& probes) {
  auto p = std::get<ReduceProblem>(c.problem);
  constexpr std::int64_t kFew = 16;
  for (std::size_t i = 0; i < p.extents.size(); ++i) {
    if (IsOurs(c) && i != p.Axis()) p.extents[i] = std::min(p.extents[i], kFew);
  }
  // The other elements are 1, or 0 if so many would overflow.
  const bool ones = static_cast<double>(p.Split().length) < Info(OutputType(c)).max_finite / 2;
  // A kernel of a user's may multiply by a matrix of ones and zeros, which spread a NaN.
  AddNanProbe(c, plan, p,
              std::string(!IsOurs(c) ? kAllNan
                          : ones     ? kNanInEachRow
                                     : "one-hot:nan:0"),
              probes);
}

}  // namespace

std::vector<KernelProbe> ReduceProbes(const Case& c, const Plan& plan) {
  const auto& p = std::get<ReduceProblem>(c.problem);
  if (p.kind_of() == ReduceKind::kSum) {
    const std::int64_t length = p.Split().length;
    const Pattern data = SummedData(length, c.dtype, OutputType(c));
    std::vector<KernelProbe> probes = {
        {"exact-integers", ProbeCase(c, p, ToString(data), /*exact=*/true)}};
    if (!Info(c.dtype).is_integer) {
      const Pattern signs = SignedData(length, c.dtype, OutputType(c));
      const bool several = IsOurs(c) || RoundingHides(length, OutputType(c));
      probes.push_back({"exact-signs", ProbeCase(c, several ? WithSeveralSlices(p) : p,
                                                 ToString(signs), /*exact=*/true)});
    }
    AddReduceNanProbe(c, plan, probes);
    if (HasSignificandProbes(c.dtype)) {
      KernelProbe probe = {"exact-significand", ProbeCase(c, p, "", /*exact=*/true)};
      probe.data.significand = 0;
      probes.push_back(std::move(probe));
    }
    return probes;
  }
  const Pattern data = {PatternKind::kIntegers, -8, -1};
  // Only the first or the last element of each slice is not 0; see SetRowOfOnes.
  const auto one = [&](double column) {
    return ProbeCase(c, p, ToString(Pattern{PatternKind::kOneLarge, 8, column}), /*exact=*/true);
  };
  KernelProbe each = {"each-element",
                      ProbeCase(c, WithASliceForEachElement(p), "", /*exact=*/true)};
  each.data.significand = 0;
  const Pattern below = FarBelow(c.dtype, OutputType(c), p.kind_of());
  std::vector<KernelProbe> probes = {
      {"far-below-0", ProbeCase(c, p, ToString(below), /*exact=*/true)},
      {"close-integers",
       ProbeCase(c, p, ToString(CloseData(c.dtype, OutputType(c))), /*exact=*/true)},
      {"negative-integers", ProbeCase(c, p, ToString(data), /*exact=*/true)}};
  const ReduceShape many = std::get<ReduceProblem>(each.data.problem).Split();
  // A user's kernel may be made for its extents, so that each-element does not count.
  if (!IsOurs(c) || many.outer * many.inner < 2 * many.length) {
    if (p.Split().inner > 1) {
      probes.insert(probes.begin(), {"last-row", one(-1)});
      // Of ours, the first slice of each-element has the first element.
      if (!IsOurs(c)) probes.insert(probes.begin(), {"first-row", one(0)});
    } else {
      probes.insert(probes.begin(), {{"first-column", one(0)}, {"last-column", one(-1)}});
    }
  }
  probes.insert(probes.begin(), std::move(each));
  return probes;
}

void SetReduceSignificands(bool in_rows, Plan& plan) {
  // Of integers 2. An index has no least number.
  const FormatInfo &input = Info(plan.inputs[0].dtype), &output = Info(plan.output.dtype);
  const double least = std::max({kBelowHalf, input.min_normal, output.min_normal});
  const double value = input.is_integer ? 2 : least * kFullSignificand;
  plan.inputs[0].pattern = in_rows ? UnitRows(value) : UnitColumns(value);
}

void SetRowOfOnes(Plan& plan) {
  Pattern& pattern = plan.inputs[0].pattern;
  pattern = pattern.b < 0 ? UnitLastRow(pattern.a) : UnitFirstRow(pattern.a);
}

}  // namespace assay::kernels
