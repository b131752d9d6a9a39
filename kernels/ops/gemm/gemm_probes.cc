#include "kernels/ops/gemm/gemm_probes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr double kSmallAddend = 8;       // of C and of bias
constexpr double kLargeAddend = 0x1p17;  // beyond what fp16 holds
constexpr double kLargestChannel = 2;    // of channel_scale

// What probes of one product add up to: GELU is curved in this range, and flat or linear beyond.
constexpr double kCurved = 8;
// Where the output is fp16 or narrower, the other of these probes goes on to where GELU is flat and
// linear: exp(2x) of a tanh overflows from 10 on.
constexpr double kFlat = 64;
// Products of a sum of whole numbers, of which Strassen's intermediate sums are eight times as
// large.
constexpr double kStrassen = 0x1p17;

// All that the exact cases change.
auto ChangedFields(const GemmProblem& p) {
  return std::tie(p.alpha, p.beta, p.scale_a, p.scale_b, p.activation);
}

std::vector<KernelProbe> OneProductProbes(const Case& c) {
  std::vector<KernelProbe> probes;
  for (const std::string_view name : {"significand-a", "significand-b"}) {
    KernelProbe probe{name, ProbeCase(c, c.problem, "", /*exact=*/false)};
    probe.data.significand = static_cast<int>(probes.size());
    probes.push_back(std::move(probe));
  }
  return probes;
}

// What is done with the product of A and B.
double ProductFactor(const GemmProblem& p) { return std::abs(p.alpha * p.scale_a * p.scale_b); }

// Sums of ±1, as exact-sparse has them, under the case's own factors and activation. They are so
// sparse that one product is twice what rounding to the output leaves of most sums, and more than
// the proven errors of a kernel that multiplies an operand by a factor.
//
// There are none where a sum would have few products: because the factor brings it near the
// output's overflow, where kernels differ, or because the accumulator is narrow. Then most sums
// would be 0. A transform errs by what the sums beside it have, also where a sum has no product.
void AddSparseSigns(const Case& c, const Plan& plan, std::vector<KernelProbe>& probes) {
  const auto& p = std::get<GemmProblem>(c.problem);
  const FormatInfo& output = Info(OutputType(c));
  if (output.is_integer || !(ProductFactor(p) > 0)) return;
  constexpr double kOfProven = 1.0 / 4, kLeastFactor = 0x1p-60;  // of fp64 and of integers
  constexpr double kToOverflow = 8;                              // deviations of a sum
  constexpr double kFew = 16, kFewOfTransform = 32;              // products of a sum
  const auto squared = [](double x) { return x * x; };
  SumUse use;
  use.factor = ProductFactor(p);
  use.most_products = kOfProven / std::max(ProvenFactor(p.k, plan.accumulator), kLeastFactor);
  const double before_overflow = squared(output.max_finite / use.factor / kToOverflow);
  const double rounded = squared(1 / (2 * output.machine_epsilon));
  const double few = std::min(kFew, static_cast<double>(p.k));
  if (std::min(use.most_products, before_overflow) < few) return;
  if (Transforms(plan)) {
    if (std::min({use.most_products, before_overflow, rounded}) < kFewOfTransform) return;
    use.most_products = std::min(use.most_products, kStrassen);
  }
  use.most_products = std::min(use.most_products, rounded);
  const Pattern signs = {PatternKind::kExactSparse, SparseDensity(p.k, c.dtype, OutputType(c), use),
                         0};
  std::string pattern = Cat(ToString(signs), "/", ToString(signs), p.beta != 0 ? "/zeros" : "");
  if (p.channel_scale) pattern += "/ones";
  if (p.bias) pattern += "/zeros";
  probes.push_back({"sparse-signs", ProbeCase(c, c.problem, std::move(pattern), /*exact=*/false)});
}

// The largest of C and of bias, beside products that are all positive. Sums of them stay exact in
// fp32: they are below 2^23, and multiples of the smallest factor, 1/8. Hardware that sums in 14
// bits may begin with C. 16-bit outputs would round the products off.
double LargestAddend(const Case& c) {
  const FormatInfo& output = Info(OutputType(c));
  if (MayBeSummedNarrowly(c.dtype) || output.storage_bits < 32) return kSmallAddend;
  if (!output.is_integer) return kLargeAddend;
  constexpr double kProduct = 0x1p14;
  const double products = kProduct * static_cast<double>(std::get<GemmProblem>(c.problem).k);
  return products + kLargeAddend <= output.max_finite ? kLargeAddend : kSmallAddend;
}

// The most that a kernel may multiply or divide A or B by, which may take one factor alone.
double MostFactor(const GemmProblem& p) {
  double most = 1;
  for (const double f : {std::abs(p.alpha), std::abs(p.scale_a), std::abs(p.scale_b)}) {
    if (f > 0) most *= std::max(f, 1 / f);
  }
  return most;
}

Significands OneProducts(const Case& c) {
  const auto& p = std::get<GemmProblem>(c.problem);
  const FormatInfo& f = Info(c.dtype);
  const bool beyond = c.significand == 1 && ReachesBeyondHalf(OutputType(c));
  const double factor = ProductFactor(p);
  const double flat = c.significand == 1 ? kFlat : kCurved;
  const double largest = (beyond ? LargeProduct(c.dtype) : flat) / (factor > 0 ? factor : 1);
  if (f.is_integer) {
    const double unit = std::clamp(std::round(largest / f.max_finite), 1.0, f.max_finite);
    // -128 is the one of which the format has no negative.
    const double most = std::clamp(std::round(largest / unit), 1.0, f.max_finite + 1);
    return {{PatternKind::kIntegers, -most, std::min(most, f.max_finite)}, unit};
  }
  // A power of two, so that products are exact. It is large, and the numbers small.
  constexpr double kMostExponent = 64;
  const double unit =
      std::clamp(LargeUnit(c.dtype) * std::exp2(std::clamp(std::round(std::log2(largest / kCurved)),
                                                           -kMostExponent, kMostExponent)),
                 f.min_normal, LargestPowerOfTwo(c.dtype));
  // Few of them are so small that they become 0.
  const double most = std::clamp(largest / unit, 4 * f.min_normal, f.max_finite);
  return {{PatternKind::kUniform, -most, most}, unit};
}

// C is near 1/beta, within the range of its format, so that beta·C is near 1: a kernel may clip
// beta, or take it for 0.
Pattern AddendOfOneProduct(const GemmProblem& p, DType t) {
  constexpr int kMostExponent = 100;
  constexpr double kLeast = 16, kMost = 8;  // few of them become 0, and none infinite
  const double addend = 1 / std::abs(NearPowerOfTwo(p.beta, kMostExponent));
  return {PatternKind::kNormal,
          std::clamp(addend, kLeast * Info(t).min_normal, LargestPowerOfTwo(t) / kMost), 0};
}

// Of a user's kernel also: B, C and the bias are NaN in turn. All of the output is, whatever the
// order of the sums, and if C and the bias are taken for a part of the product.
void AddFurtherGemmNanProbes(const Case& c, const Plan& plan, const GemmProblem& p, bool exact,
                             std::vector<KernelProbe>& probes) {
  const std::string operands = Cat("checkerboard/", kAllNan, p.beta != 0 ? "/ones" : "");
  AddNanProbe(c, plan, p, operands, probes, exact, "nan-b");
  std::string pattern = "checkerboard/checkerboard";
  if (p.beta != 0) {
    AddNanProbe(c, plan, p, Cat(pattern, "/", kAllNan), probes, exact, "nan-c");
    pattern += "/ones";
  }
  if (!p.bias) return;
  if (p.channel_scale) pattern += "/ones";
  AddNanProbe(c, plan, p, Cat(pattern, "/", kAllNan), probes, exact, "nan-bias");
}

// All of the output is NaN, also that of a product by Strassen in double, which spreads each NaN.
void AddGemmNanProbe(const Case& c, const Plan& plan, std::vector<KernelProbe>& probes) {
  auto p = std::get<GemmProblem>(c.problem);
  // Kernels differ in max(NaN, 0), and a BLAS computes no product if alpha is 0.
  if (p.activation_kind() == Activation::kRelu) return;
  if (static_cast<float>(ProductFactor(p)) == 0) return;
  if (IsOurs(c)) {
    constexpr std::int64_t kFew = 64, kFewBatches = 2;
    p.m = std::min(p.m, kFew);
    p.n = std::min(p.n, kFew);
    p.batch = std::min(p.batch, kFewBatches);
  }
  // A sum of the output has all of a row of A, or of a column if A is transposed.
  std::string pattern(p.trans_a && p.k < p.m ? kAllNan : kNanInEachRow);
  // B holds no 0: a kernel may leave out products with one.
  pattern += p.beta != 0 ? "/checkerboard/ones" : "/checkerboard";
  // The exact reference takes half the time.
  const bool exact = !IsOurs(c) && !IsGelu(p.activation_kind());
  if (!IsOurs(c)) AddFurtherGemmNanProbes(c, plan, p, exact, probes);
  AddNanProbe(c, plan, p, std::move(pattern), probes, exact);
}

}  // namespace

std::vector<KernelProbe> GemmProbes(const Case& c, const Plan& plan) {
  const auto& own = std::get<GemmProblem>(c.problem);
  GemmProblem p = own;
  p.alpha = NearPowerOfTwo(p.alpha, 1);
  p.beta = NearPowerOfTwo(p.beta, 1);
  p.scale_a = NearPowerOfTwo(p.scale_a, 1);
  p.scale_b = NearPowerOfTwo(p.scale_b, 1);
  if (IsGelu(p.activation_kind())) p.activation = "none";
  SumUse use;
  use.factor = ProductFactor(p) * (p.channel_scale ? kLargestChannel : 1);
  if (Transforms(plan)) use.most_products = kStrassen;
  use.addend = (std::abs(p.beta) + (p.bias ? 1 : 0)) * LargestAddend(c);
  std::vector<KernelProbe> probes = ProductProbes(c, p, p.k, use);
  AddGemmNanProbe(c, plan, probes);
  // Positive, so that relu changes nothing.
  for (double* factor : {&p.alpha, &p.scale_a, &p.scale_b}) {
    *factor = *factor == 0 ? 1 : std::abs(*factor);
    // The largest number of an 8-bit format is the output's largest, too.
    if (!HasSignificandProbes(c.dtype)) *factor = std::min(*factor, 1.0);
  }
  const bool changed = ChangedFields(p) != ChangedFields(own);
  std::vector<KernelProbe> more;
  if (!changed || IsOurs(c)) {
    more = SignificandProbes(c, p, "exact-significand-a", "exact-significand-b");
    std::move(more.begin(), more.end(), std::back_inserter(probes));
  }
  if (changed) {
    if (!IsOurs(c)) AddSparseSigns(c, plan, probes);
    more = OneProductProbes(c);
    std::move(more.begin(), more.end(), std::back_inserter(probes));
  }
  return probes;
}

void SetGemmSignificands(const Case& c, Plan& plan) {
  const auto& p = std::get<GemmProblem>(c.problem);
  for (std::size_t i = 2; i < plan.inputs.size(); ++i) {
    Operand& operand = plan.inputs[i];
    if (c.exact) {
      operand.pattern = {operand.name == "channel_scale" ? PatternKind::kOnes : PatternKind::kZeros,
                         0, 0};
    } else if (operand.name == "c") {
      operand.pattern = AddendOfOneProduct(p, operand.dtype);
    }
  }
  const bool of_a = c.significand == 0;
  const Significands data =
      c.exact ? SignificandData(c, /*beyond=*/!of_a, MostFactor(p)) : OneProducts(c);
  plan.inputs[of_a ? 0 : 1].pattern = data.numbers;
  // One unit for each row of the output in A, or one for each column in B.
  const bool in_rows = of_a ? p.trans_b : !p.trans_a;
  plan.inputs[of_a ? 1 : 0].pattern = in_rows ? UnitRows(data.unit) : UnitColumns(data.unit);
}

void SetExactAddends(const Case& c, Plan& plan) {
  // Beside signs, whose sums are near 0, they are small, so that a lost product shows.
  const bool signs = plan.inputs[0].pattern.kind == PatternKind::kExactSparse;
  const double largest = signs ? kSmallAddend : LargestAddend(c);
  for (Operand& operand : plan.inputs) {
    if (operand.name == "channel_scale") {
      operand.pattern = {PatternKind::kIntegers, 1, kLargestChannel};
    } else if (std::isnan(operand.pattern.a)) {
      continue;  // nan-c, nan-bias
    } else if (operand.name == "c" || operand.name == "bias") {
      operand.pattern = {PatternKind::kIntegers, -largest, largest};
    }
  }
}

}  // namespace assay::kernels
