#include "kernels/ops/reduce/reduce_probes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/pattern.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/probe_data.h"

namespace assay {
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

// Signs cancel, so that sums are small and their rounding is fine.
Pattern SignedData(std::int64_t length, DType input) {
  constexpr double kDeviations = 6;
  const double most = HeldExactly(input) / kDeviations;
  return {PatternKind::kExactSparse, std::min(1.0, most * most / static_cast<double>(length)), 0};
}

// The largest whole numbers that differ in their last bit: a comparison in fewer bits takes them
// for equal. In fp64 the largest that the pattern takes.
Pattern CloseData(DType input) {
  constexpr double kValues = 16;
  const FormatInfo& f = Info(input);
  const double above = std::min(f.is_integer ? f.max_finite + 1 : 2 / f.machine_epsilon, 0x1p31);
  return {PatternKind::kIntegers, above - kValues, above - 1};
}

// Numbers of both signs, as large as sums that are exact in every order may have them. None if the
// slices are so long that they are not large.
std::optional<Pattern> LargeData(std::int64_t length, DType input, DType output) {
  constexpr double kLeast = 16;
  constexpr double kDeviations = 6;
  const auto n = static_cast<double>(length);
  const double largest =
      std::floor(std::min({HeldExactly(input) / n, 2 / Info(input).machine_epsilon,
                           Info(output).max_finite / (kDeviations * std::sqrt(n))}));
  if (Info(input).is_integer || largest < kLeast) return std::nullopt;
  return Pattern{PatternKind::kIntegers, -largest, largest};
}

// As far below 0 as the formats go, with room for a rounding.
Pattern FarBelow(DType input, DType output) {
  if (Info(input).is_integer) return {PatternKind::kIntegers, -128, -64};
  const double range = std::min(Info(input).max_finite, Info(DType::kF32).max_finite);
  const double lowest =
      -0.9 * (Info(output).is_integer ? range : std::min(range, Info(output).max_finite));
  return {PatternKind::kUniform, lowest, lowest / 2};
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

// A sum may lose as many +1 as -1.
ReduceProblem WithSeveralSlices(const ReduceProblem& p) {
  return WithSlices(p, 16, std::int64_t{1} << 24);
}

// Of twice as many slices as a slice has elements, each element is the largest of one.
ReduceProblem WithASliceForEachElement(const ReduceProblem& p) {
  return WithSlices(p, 2 * p.Split().length, std::int64_t{1} << 21);
}

}  // namespace

std::vector<KernelProbe> ReduceProbes(const Case& c) {
  const auto& p = std::get<ReduceProblem>(c.problem);
  if (p.kind_of() == ReduceKind::kSum) {
    const std::int64_t length = p.Split().length;
    const Pattern data = SummedData(length, c.dtype, OutputType(c));
    std::vector<KernelProbe> probes = {
        {"exact-integers", ProbeCase(c, p, ToString(data), /*exact=*/true)}};
    if (RoundingHides(length, OutputType(c))) {
      const Pattern signs = SignedData(length, c.dtype);
      probes.push_back(
          {"exact-signs", ProbeCase(c, WithSeveralSlices(p), ToString(signs), /*exact=*/true)});
    } else if (const auto large = LargeData(length, c.dtype, OutputType(c))) {
      probes.push_back({"exact-large", ProbeCase(c, p, ToString(*large), /*exact=*/true)});
    }
    if (HasSignificandProbes(c.dtype)) {
      KernelProbe probe = {"exact-significand", ProbeCase(c, p, "", /*exact=*/true)};
      probe.data.significand = 0;
      probes.push_back(std::move(probe));
    }
    return probes;
  }
  const Pattern data = {PatternKind::kIntegers, -8, -1};
  // Only the first or the last element is not 0. Where slices run along rows, that is all there is.
  const auto one = [&](double column) {
    return ProbeCase(c, p, ToString(Pattern{PatternKind::kOneLarge, 8, column}), /*exact=*/true);
  };
  KernelProbe each = {"each-element",
                      ProbeCase(c, WithASliceForEachElement(p), "", /*exact=*/true)};
  each.data.significand = 0;
  const Pattern below = FarBelow(c.dtype, OutputType(c));
  std::vector<KernelProbe> probes = {
      {"far-below-0", ProbeCase(c, p, ToString(below), /*exact=*/true)},
      {"close-integers", ProbeCase(c, p, ToString(CloseData(c.dtype)), /*exact=*/true)},
      {"negative-integers", ProbeCase(c, p, ToString(data), /*exact=*/true)}};
  const ReduceShape many = std::get<ReduceProblem>(each.data.problem).Split();
  if (many.outer * many.inner < 2 * many.length) {
    probes.insert(probes.begin(), {{"first-column", one(0)}, {"last-column", one(-1)}});
  }
  probes.insert(probes.begin(), std::move(each));
  return probes;
}

void SetReduceSignificands(bool in_rows, Plan& plan) {
  const DType output = plan.output.dtype;
  const bool held = ReachesBeyondHalf(plan.inputs[0].dtype) &&
                    (Info(output).is_integer || ReachesBeyondHalf(output));
  const double value = held ? kBeyondHalf * kFullSignificand : kFullSignificand;
  plan.inputs[0].pattern = in_rows ? UnitRows(value) : UnitColumns(value);
}

}  // namespace assay
