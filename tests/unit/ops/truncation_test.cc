// Matrix units that cut off instead of rounding: sums on positive data are beyond the bound of an
// fp32 accumulator, and within that of what such a kernel declares.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/op.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

// A unit that aligns b products and the sum to the largest, with f bits beyond fp32's.
struct Unit {
  int block, further_bits;
  int digits = 23;  // of a sum, after the first
};

double Cut(double v, int exponent) {
  const double last = std::ldexp(1.0, exponent);
  return std::trunc(v / last) * last;
}

double SumOn(const Unit& unit, const std::vector<double>& products) {
  double sum = 0;
  for (std::size_t k = 0; k < products.size(); k += static_cast<std::size_t>(unit.block)) {
    const std::size_t end = std::min(products.size(), k + static_cast<std::size_t>(unit.block));
    double largest = std::abs(sum);
    for (std::size_t i = k; i < end; ++i) largest = std::max(largest, std::abs(products[i]));
    if (largest == 0) continue;
    const int last = std::ilogb(largest) - unit.digits - unit.further_bits;
    double total = Cut(sum, last);
    for (std::size_t i = k; i < end; ++i) total += Cut(products[i], last);
    sum = total == 0 ? 0 : Cut(total, std::ilogb(total) - unit.digits);
  }
  return sum;
}

// |error|/E of one sum of products of uniform(0, 1), falling along k if `falling`.
double ShareOfBound(DType input, std::int64_t k, const Unit& unit, const Accumulator& declared,
                    bool falling) {
  std::mt19937_64 random(static_cast<std::uint64_t>(k) + 17);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> products(static_cast<std::size_t>(k));
  for (double& p : products)
    p = Quantise(uniform(random), input) * Quantise(uniform(random), input);
  if (falling) std::sort(products.rbegin(), products.rend());
  double exact = 0;
  for (const double p : products) exact += p;  // of magnitudes, too
  const double error = std::abs(SumOn(unit, products) - exact);
  return error / MakeProductBound(input, k, false, declared).Allowance(exact);
}

constexpr Accumulator kUnknown{.truncation = {.roundoff = kTruncatedRoundoff}};

TEST(Truncation, PositiveSumsAreWithinTheDeclaredBound) {
  for (const DType input : {DType::kF16, DType::kBF16, DType::kTF32}) {
    for (const std::int64_t k : {16, 100, 256, 1024, 4096, 16384, 65536}) {
      for (const int block : {4, 8, 16}) {
        for (const int f : {0, 1, 2}) {
          for (const bool falling : {false, true}) {
            const Unit unit = {block, f};
            const Accumulator known{
                .truncation = {.roundoff = kTruncatedRoundoff, .block = block, .further_bits = f}};
            SCOPED_TRACE(testing::Message() << Info(input).name << " k " << k << " unit " << block
                                            << "+" << f << (falling ? " falling" : ""));
            EXPECT_LE(ShareOfBound(input, k, unit, kUnknown, falling), 0.9);
            EXPECT_LE(ShareOfBound(input, k, unit, known, falling), 0.9);
          }
        }
      }
    }
  }
}

// What the declaration is for: without it the right kernel fails.
TEST(Truncation, LongPositiveSumsAreBeyondTheBoundOfFp32) {
  EXPECT_GT(ShareOfBound(DType::kF16, 65536, {8, 0}, {}, false), 5);
  EXPECT_GT(ShareOfBound(DType::kBF16, 65536, {16, 0}, {}, true), 10);
}

TEST(Truncation, FourteenBitSumsAreWithinTheDeclaredBound) {
  for (const std::int64_t k : {32, 128, 1024, 4096}) {
    EXPECT_LE(ShareOfBound(DType::kE4M3FN, k, {32, 0, 13}, NarrowestAccumulator(), true), 0.9) << k;
  }
}

// A wrong kernel is not hidden: the bound is at most two and a half times what a unit without
// further bits loses.
TEST(Truncation, TheBoundIsNotFarFromWhatUnitsLose) {
  EXPECT_GT(ShareOfBound(DType::kF16, 65536, {4, 0}, kUnknown, true), 0.4);
}

// Of formats that are multiplied in plain arithmetic, and of kernels that declare nothing, not a
// bit changes.
TEST(Truncation, NothingElseIsWidened) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kTF32,
                        DType::kE4M3FN, DType::kE5M2, DType::kI8}) {
    const double u = AccumulatorRoundoff(t);
    for (const std::int64_t k : {1, 7, 64, 1000, 65536}) {
      EXPECT_EQ(ProbableFactor(k, AccumulatorOf(t)), ProbableFactor(k, u));
      EXPECT_EQ(ProvenFactor(k, AccumulatorOf(t)), ProvenFactor(k, u));
      EXPECT_EQ(ProvenOverProbable(k, AccumulatorOf(t)), ProvenOverProbable(k, u));
      if (MayBeCutOff(t)) continue;
      EXPECT_EQ(ProbableFactor(k, AccumulatorOf(t, kUnknown)), ProbableFactor(k, u));
      EXPECT_EQ(ProvenFactor(k, AccumulatorOf(t, kUnknown)), ProvenFactor(k, u));
    }
    EXPECT_EQ(MayBeCutOff(t), t != DType::kF64 && t != DType::kF32 && t != DType::kI8);
  }
}

TEST(Truncation, FactorsAreThoseOfTheFormula) {
  TruncatingUnit t{.roundoff = 0x1p-23};
  EXPECT_EQ(TruncationFactor(1000, t), 1000 * 0x1p-24);
  t.promoted = 128;
  EXPECT_EQ(TruncationFactor(1000, t), 128 * 0x1p-24);
  EXPECT_EQ(TruncationFactor(100, t), 100 * 0x1p-24);
  t = {.roundoff = 0x1p-23, .block = 8, .further_bits = 2};
  EXPECT_EQ(TruncationFactor(1000, t), 125 * (1 + 9 * 0.25) * 0x1p-24);
  EXPECT_EQ(TruncationFactor(1001, t), 126 * (1 + 9 * 0.25) * 0x1p-24);
  // No unit may declare more than it could have.
  EXPECT_EQ(AccumulatorOf(DType::kBF16, {.truncation = {.roundoff = 1}}).truncation.roundoff,
            0x1p-23);
  EXPECT_EQ(AccumulatorOf(DType::kE5M2, {.truncation = {.roundoff = 1}}).truncation.roundoff,
            0x1p-13);
}

TEST(Truncation, TheProvenBoundStaysAboveTheProbableOne) {
  for (const std::int64_t k : {1, 64, 1000, 65536}) {
    for (const int f : {-1, 0, 2}) {
      const Accumulator a = AccumulatorOf(
          DType::kF16, {.truncation = {.roundoff = 0x1p-23, .block = 8, .further_bits = f}});
      EXPECT_GE(ProvenFactor(k, a), ProbableFactor(k, a)) << k;
      EXPECT_GE(ProvenOverProbable(k, a), 1) << k;
      EXPECT_GE(ProbableFactor(k, a), TruncationFactor(k, a.truncation)) << k;
    }
  }
}

// Plan, allowance, κ and the model of σ follow what is declared.
TEST(Truncation, OperatorsFollowTheDeclaration) {
  ConvProblem conv;
  conv.batch = 1;
  conv.channels = 4096;
  conv.filters = 2;
  conv.input = {3, 3};
  conv.kernel = {1, 1};
  for (const Problem& problem : {Problem(GemmProblem{.m = 2, .n = 3, .k = 4096}), Problem(conv)}) {
    const Case c = MakeCase(problem, DType::kF16);
    const Op& op = *FindOp(OpName(problem));
    Plan plan = PlanOf(c);
    const Tensors tensors(plan, [](int, std::int64_t) { return 1.0; });
    const double own = PlainReference(op, c, plan, tensors).allowance[0];
    const double floor = op.Residuals(c, plan).gain_floor;
    const double kappa = plan.proven_factor;
    op.HoldTo(c, AccumulatorOf(c.dtype, kUnknown), plan);
    EXPECT_EQ(plan.accumulator.truncation, kUnknown.truncation);
    const double wide = PlainReference(op, c, plan, tensors).allowance[0];
    EXPECT_NEAR(own, 8 * 64 * 0x1p-24 * 4096, 1e-6);
    EXPECT_NEAR(wide, 4096 * 0x1p-24 * 4096, 1e-6);
    EXPECT_GE(plan.proven_factor, 1);
    EXPECT_LT(plan.proven_factor, kappa);
    EXPECT_GT(plan.proven_factor * wide, kappa * own);
    EXPECT_GT(op.Residuals(c, plan).gain_floor, floor);
  }
}

// The scores of an attention are products, so a unit that cuts off makes all of them smaller by one
// factor. Other units have the general floor of eight roundings.
TEST(Truncation, MakesTheScoresOfAnAttentionSmaller) {
  AttentionProblem attention;
  attention.heads = 1;
  attention.seq = 8;
  attention.dim = 64;
  const Case c = MakeCase(attention, DType::kF16);
  const Op& op = AttentionOp();
  Plan plan = PlanOf(c);
  // A kernel may round Q to fp16 after it has multiplied it by the scale.
  const double rounded = op.Residuals(c, plan).direction_floor;
  EXPECT_LT(rounded, 2e-5);
  op.HoldTo(c, AccumulatorOf(c.dtype, kUnknown), plan);
  const double cut = TruncatedGain(64, plan.accumulator.truncation);
  EXPECT_DOUBLE_EQ(cut, 1.5 * 0x1p-23 * 65 / 2 * (1 + 1.0 / 4));
  EXPECT_DOUBLE_EQ(op.Residuals(c, plan).direction_floor, 8 * 0x1p-24 + cut + rounded);
  EXPECT_LT(op.Residuals(c, plan).direction_floor, 3e-5) << "an error of the scale is still found";
  EXPECT_EQ(TruncatedGain(64, {}), 0);
}

// The sums of P·V as well, over the keys.
TEST(Truncation, MakesTheResultsOfAnAttentionSmaller) {
  AttentionProblem attention;
  attention.heads = 1;
  attention.seq = 8;
  attention.kv_seq = 1024;
  attention.dim = 64;
  Case c = MakeCase(attention, DType::kE4M3FN);
  c.out_dtype = DType::kBF16;
  Plan plan = PlanOf(c);
  const double floor = AttentionOp().Residuals(c, plan).gain_floor;
  AttentionOp().HoldTo(c, NarrowestAccumulator(), plan);
  const double half = 0x1p-13 * 1025 / 2 * (1 + 1.0 / 32);
  EXPECT_DOUBLE_EQ(AccumulatedGain(1024, plan.accumulator, 0x1p-24), 2.5 * half);
  EXPECT_DOUBLE_EQ(AttentionOp().Residuals(c, plan).gain_floor, floor + 2.5 * half);
  EXPECT_EQ(AccumulatedGain(1024, {}, 0x1p-24), 0);
}

}  // namespace
}  // namespace assay
