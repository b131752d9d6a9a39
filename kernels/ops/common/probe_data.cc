#include "kernels/ops/common/probe_data.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/exact_product.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Products of two elements that are both kept, for sums of `products` of k on average.
double DensityFor(double products, std::int64_t k) {
  return std::min(1.0, std::sqrt(products / static_cast<double>(k)));
}

}  // namespace

Case ProbeCase(const Case& c, Problem problem, std::string pattern, bool exact) {
  Case probe;
  probe.problem = std::move(problem);
  probe.name = c.name;
  probe.dtype = c.dtype;
  probe.out_dtype = c.out_dtype;
  probe.provider = c.provider;
  probe.kernel_file = c.kernel_file;
  probe.deadline_seconds = c.deadline_seconds;
  probe.deadline_from = c.deadline_from;
  probe.slowest_launch = c.slowest_launch;
  probe.elsewhere = c.elsewhere;
  probe.operand_roundoff = c.operand_roundoff;
  probe.flushes_subnormals = c.flushes_subnormals;
  probe.cuts_off_sums = c.cuts_off_sums;
  probe.intermediate_dtype = c.intermediate_dtype;
  probe.pattern = std::move(pattern);
  probe.seed = kProbeSeed;
  probe.mode = Mode::kValidate;
  probe.probes = false;
  probe.exact = exact;
  return probe;
}

double SparseDensity(std::int64_t k, DType input, DType output, const SumUse& use) {
  // A sum that the accumulator does not hold rounds; one that overflows has no right result.
  constexpr double kToRound = 6, kToOverflow = 8;  // deviations of a sum
  const double sums = MayBeSummedNarrowly(input) ? 1 / kNarrowestRoundoff : 0x1p24;
  const double factor = std::abs(use.factor);
  const double held = std::max(0.0, Info(output).max_finite - use.addend);
  const double deviation =
      std::min(sums / kToRound, factor > 0 ? held / factor / kToOverflow : sums);
  return DensityFor(std::min(deviation * deviation, use.most_products), k);
}

// ±128 with a deviation of 32, which int8 clips: a quarter are -128, which has no negative there,
// and two products of such numbers are beyond 16 bits. Nothing if fp32 does not hold all sums, or
// the output overflows.
std::optional<Pattern> LargeBytes(std::int64_t k, DType output, const SumUse& use) {
  constexpr double kDeviations = 8, kOfProduct = 13'600, kLargest = 0x1p14;
  const double length = static_cast<double>(k), factor = std::abs(use.factor);
  const double largest = std::min(kLargest * length, kDeviations * kOfProduct * std::sqrt(length));
  // The unit of all terms: the factor of another column may be half of it, and so may an addend's.
  const double unit = std::min(factor, 1.0) / 2;
  const double most = std::min(0x1p24 * unit, Info(output).max_finite);
  if (!(largest * factor + use.addend <= most)) return std::nullopt;
  return Pattern{PatternKind::kExtremes, 128, 32};
}

std::optional<Pattern> IntegerData(std::int64_t k, DType input, DType output, const SumUse& use) {
  // Sums of products that are all large have more digits than fp32 and than 16 bits hold, and the
  // smallest number, whose negative there is not, is among them: often enough that two products of
  // it meet, whose sum is the one that 16 bits do not hold.
  if (Info(input).is_integer && Info(output).is_integer) {
    return Pattern{PatternKind::kIntegers, -128, -124};
  }
  if (Info(input).is_integer) {
    if (const std::optional<Pattern> large = LargeBytes(k, output, use)) return large;
  }
  // A product of two numbers from 1 to 4 is 6.25 on average, its square 56.25; sums of n
  // such products are below 6.25·n + 10·√(56.25·n) and at most 16·n.
  constexpr double kMean = 6.25, kDeviations = 75, kLargest = 16, kBits = 2;
  const double factor = std::abs(use.factor);
  const double most =
      factor > 0 ? (Info(output).max_finite - use.addend) / factor : Info(output).max_finite;
  const double root =
      (-kDeviations + std::sqrt(kDeviations * kDeviations + 4 * kMean * std::max(0.0, most))) /
      (2 * kMean);
  if (root < 1) return std::nullopt;
  // What is added to a scaled sum has smaller units than it: it leaves fewer bits to it. A
  // narrow accumulator has but the products: what follows them is fp32 everywhere.
  const double sums = use.plain() ? 0x1p23 : 0x1p18;
  const double accumulator =
      (MayBeSummedNarrowly(input) ? 1 / kNarrowestRoundoff : sums) / kLargest;
  const double density = DensityFor(std::min({root * root, accumulator, use.most_products}), k);
  if (density < 1) return Pattern{PatternKind::kExactInts, density, kBits};

  const double length = static_cast<double>(k);
  const double range = 2 / Info(output).machine_epsilon;
  const double held = Info(input).is_integer ? kExactElement : 2 / Info(input).machine_epsilon;
  double bits = kBits;
  const auto mean = [&] { return factor * length * std::exp2(2 * bits - 2); };
  const auto fits = [&](double b) {
    const double largest = length * std::exp2(2 * b);
    return std::exp2(b) <= std::min(held, kExactElement) && largest <= accumulator * kLargest &&
           largest * factor + use.addend <= Info(output).max_finite;
  };
  const bool rounds = Info(output).storage_bits <= 16 && Info(input).dtype != DType::kE2M1;
  while (rounds && factor > 0 && mean() < 2 * range && fits(bits + 1)) ++bits;
  return Pattern{PatternKind::kExactInts, density, bits};
}

std::vector<KernelProbe> ProductProbes(const Case& c, const Problem& problem, std::int64_t k,
                                       const SumUse& use) {
  const DType output = OutputType(c);
  std::vector<KernelProbe> probes;
  // Integer kernels are judged exactly on any data: the one is for its digest.
  if (!Info(output).is_integer) {
    const Pattern sparse = {PatternKind::kExactSparse, SparseDensity(k, c.dtype, output, use), 0};
    probes.push_back({"exact-sparse", ProbeCase(c, problem, ToString(sparse), /*exact=*/true)});
  }
  KernelProbe integers{"exact-integers", {}};
  if (const std::optional<Pattern> data = IntegerData(k, c.dtype, output, use)) {
    integers.data = ProbeCase(c, problem, ToString(*data), /*exact=*/true);
  } else {
    integers.skipped = Cat("sums of integers overflow ", Name(output));
  }
  probes.push_back(std::move(integers));
  return probes;
}

bool IsEightBitFloat(DType input) {
  return !Info(input).is_integer && Info(input).storage_bits == 8;
}

// What a kernel may take for 0 in its output: fp16's smallest normal number.
constexpr double kSmallProduct = 0x1p-14;

Significands SignificandData(const Case& c, bool beyond, double most_factor) {
  const bool wide = ReachesBeyondHalf(OutputType(c));
  const double small = ReachesBeyondHalf(c.dtype) ? kSmallProduct : 1;
  const double product = !wide ? 1 : beyond ? LargeProduct(c.dtype) : small;
  const double most = LargestPowerOfTwo(c.dtype);
  if (!HasSignificandProbes(c.dtype)) return {kEveryFiniteNumber, std::min(product, most)};
  const double least =
      std::max(std::min(product, 1.0) / LargeUnit(c.dtype), Info(c.dtype).min_normal * most_factor);
  const double unit = std::min(product / least, most / most_factor);
  const double scale = product / unit;
  return {{kFullSignificands.kind, scale * kFullSignificands.a, scale * kFullSignificands.b}, unit};
}

bool HasSignificandProbes(DType input) {
  const FormatInfo& f = Info(input);
  return !f.is_integer && f.storage_bits >= 16;
}

std::vector<KernelProbe> SignificandProbes(const Case& c, const Problem& problem,
                                           std::string_view first, std::string_view second) {
  if (!HasSignificandProbes(c.dtype) && !IsEightBitFloat(c.dtype)) return {};
  std::vector<KernelProbe> probes;
  for (const std::string_view name : {first, second}) {
    KernelProbe probe{name, ProbeCase(c, problem, "", /*exact=*/true)};
    probe.data.significand = static_cast<int>(probes.size());
    probes.push_back(std::move(probe));
  }
  return probes;
}

Pattern NearZero(DType t) {
  if (ReachesBeyondHalf(t)) return {PatternKind::kUniform, -1e-8, 1e-8};
  return {PatternKind::kUniform, 0x1p-14, 1e-4};
}

bool ReachesBeyondHalf(DType t) { return Info(t).max_finite >= Info(DType::kBF16).max_finite; }

double LargeProduct(DType input) { return ReachesBeyondHalf(input) ? 0x1p34 : kBeyondHalf; }

bool HoldsInHalf(const Case& c, const Plan& plan) {
  return c.intermediate_dtype == DType::kF16 ||
         plan.intermediate_roundoff == Info(DType::kF16).unit_roundoff;
}

double LargestPowerOfTwo(DType t) { return std::ldexp(1.0, std::ilogb(Info(t).max_finite)); }

bool IsOurs(const Case& c) { return c.kernel_file.empty() && c.elsewhere == nullptr; }

double LargestElement(const Case& c, const Plan& plan) {
  if (c.significand >= 0) {
    return Info(c.dtype).storage_bits > 32 ? kDoubleElements : kFloatElements;
  }
  return std::min(kExactElement, std::max(LargestMagnitude(plan.inputs[0].pattern),
                                          LargestMagnitude(plan.inputs[1].pattern)));
}

void AddNanProbe(const Case& c, const Plan& plan, Problem problem, std::string pattern,
                 std::vector<KernelProbe>& probes, bool exact, std::string_view name) {
  // A kernel of a user's may clip to fp16's range with fmin and fmax.
  if (!IsOurs(c) && OutputType(c) == DType::kF16) return;
  for (const DType t : {c.dtype, OutputType(c), c.intermediate_dtype}) {
    if (t == DType::kUnspecified) continue;
    if (Info(t).is_integer || Info(t).storage_bits < 16) return;
  }
  if (plan.operand_roundoff > 0) return;
  KernelProbe probe{name, ProbeCase(c, std::move(problem), std::move(pattern), exact)};
  probe.may_refuse = true;
  probes.push_back(std::move(probe));
}

double NearPowerOfTwo(double x, int most) {
  if (x == 0) return 0;
  const double exponent = std::round(std::log2(std::abs(x)));
  return std::copysign(std::exp2(std::clamp(exponent, -1.0 * most, 1.0 * most)), x);
}

}  // namespace assay::kernels
