// The rule of one element, and each statistic that it adds to, held against numbers worked out by
// hand. The SIMD and GPU passes are held against this rule, so that nothing else shows it wrong.
#include "kernels/runtime/compare_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/runtime/cpu/compare_cpu.h"
#include "tests/unit/runtime/compare_testing.h"

namespace assay {
namespace {

using internal::AddToTotals;
using internal::ClassOf;
using internal::CompareRule;
using internal::ErrorRatio;
using internal::IsOverflowOf;
using internal::JudgeElement;
using internal::Judgement;
using internal::StorageIndex;
using internal::UlpAt;
using internal::UlpDistance;
using internal::ValueClass;

CompareRule RuleOf(DType dtype, Gate gate = Gate::kBoundProbable) {
  CompareRequest request;
  request.output.dtype = dtype;
  request.gate = gate;
  return CompareRule(request);
}

// fp16, whose bounds are E and 2·E, without the rounding of the output.
CompareRule PlainHalf(Gate gate) {
  CompareRule rule = RuleOf(DType::kF16, gate);
  rule.u = rule.eta_half = 0;
  rule.e_factor = 1;
  rule.proven_factor = 2;
  return rule;
}

Judgement JudgeHalf(const CompareRule& rule, double actual, double r, double e) {
  return JudgeElement(rule, RoundToFormat(actual, DType::kF16), r, e);
}

TEST(CompareRule, TakesTheFormatsConstants) {
  for (const DType t : kFormatsUnderTest) {
    for (const bool exact : {false, true}) {
      CompareRequest request;
      request.output.dtype = t;
      request.exact = exact;
      request.flushes_subnormals = t == DType::kF16;
      request.poisoned = t != DType::kBF16;
      request.proven_factor = 3;
      request.gate = Gate::kUlp;
      request.atol = 0.25;
      request.rtol = 0.125;
      request.max_ulp = 2.5;
      const CompareRule rule(request);
      const FormatInfo& f = Info(t);
      SCOPED_TRACE(f.name);
      const bool integer = t == DType::kI8 || t == DType::kI32;
      const bool no_bound = exact || integer;
      EXPECT_EQ(rule.dtype, t);
      EXPECT_EQ(rule.gate, Gate::kUlp);
      EXPECT_EQ(rule.is_integer, integer);
      EXPECT_EQ(rule.has_inf, f.has_inf);
      EXPECT_EQ(rule.exact, no_bound);
      EXPECT_EQ(rule.payload, t == DType::kF64 || t == DType::kF32 || t == DType::kTF32 ||
                                  t == DType::kF16 || t == DType::kE5M2);
      EXPECT_EQ(rule.poison, PoisonBits(t, Poison::kFirst));
      EXPECT_EQ(rule.mantissa_bits, f.mantissa_bits);
      EXPECT_EQ(rule.ulp_scale, std::pow(2.0, -f.mantissa_bits));
      EXPECT_EQ(rule.max_finite, f.max_finite);
      EXPECT_EQ(rule.min_normal, f.min_normal);
      EXPECT_EQ(rule.min_subnormal, f.min_subnormal);
      EXPECT_EQ(rule.u, no_bound ? 0.0 : f.unit_roundoff);
      const double eta_half = t == DType::kF16   ? 0x1p-14
                              : t == DType::kF64 ? 0x1p-1074
                                                 : f.min_subnormal * 0.5;
      EXPECT_EQ(rule.eta_half, no_bound ? 0.0 : eta_half);
      EXPECT_EQ(rule.e_factor, no_bound ? 0.0 : 1 + f.unit_roundoff);
      EXPECT_EQ(rule.proven_factor, no_bound ? 0.0 : (1 + f.unit_roundoff) * 3);
      EXPECT_EQ(rule.atol, 0.25);
      EXPECT_EQ(rule.rtol, 0.125);
      EXPECT_EQ(rule.max_ulp, 2.5);
    }
  }
}

// The format's largest number, the distance to its neighbour, and where numbers begin to round to
// infinity or NaN.
TEST(CompareRule, KnowsWhereEachFormatOverflows) {
  const struct {
    DType dtype;
    double ulp, overflow;
  } rows[] = {{DType::kF64, 0x1p971, kInf},
              {DType::kF32, 0x1p104, 0x1.ffffffp127},
              {DType::kTF32, 0x1p117, 0x1.ffep127},
              {DType::kF16, 32, 65520},
              {DType::kBF16, 0x1p120, 0x1.ffp127},
              {DType::kE4M3FN, 32, 464},
              {DType::kE4M3FNUZ, 16, 248},
              {DType::kE5M2, 8192, 61440},
              {DType::kE5M2FNUZ, 8192, 61440},
              {DType::kE2M1, 2, kInf},
              {DType::kI8, 1, kInf},
              {DType::kI32, 1, kInf}};
  for (const auto& row : rows) {
    const CompareRule rule = RuleOf(row.dtype);
    EXPECT_EQ(rule.max_ulp_size, row.ulp) << Name(row.dtype);
    EXPECT_EQ(rule.overflow, row.overflow) << Name(row.dtype);
  }
}

TEST(CompareRule, TellsClassesApart) {
  EXPECT_EQ(ClassOf(0.0), ValueClass::kFinite);
  EXPECT_EQ(ClassOf(-1e308), ValueClass::kFinite);
  EXPECT_EQ(ClassOf(kInf), ValueClass::kPosInf);
  EXPECT_EQ(ClassOf(-kInf), ValueClass::kNegInf);
  EXPECT_EQ(ClassOf(kNaN), ValueClass::kNan);
  EXPECT_EQ(ClassOf(-kNaN), ValueClass::kNan);
}

TEST(CompareRule, RatioIsAtMostOneWhereTheErrorIsAccepted) {
  EXPECT_EQ(ErrorRatio(0, 0), 0);
  EXPECT_EQ(ErrorRatio(0, 3), 0);
  EXPECT_EQ(ErrorRatio(1, 4), 0.25);
  EXPECT_EQ(ErrorRatio(1, 1), 1);
  EXPECT_EQ(ErrorRatio(4, 4), 1);
  EXPECT_EQ(ErrorRatio(3, 2), 1.5);
  EXPECT_EQ(ErrorRatio(8, 2), 4);
  EXPECT_EQ(ErrorRatio(1, 0), kInf);
  EXPECT_EQ(ErrorRatio(1, kNaN), kInf);
  EXPECT_EQ(ErrorRatio(kNaN, 1), kInf);
  EXPECT_EQ(ErrorRatio(1, -1), kInf);
}

TEST(CompareRule, UlpIsTheDistanceToTheNeighbour) {
  const CompareRule half = RuleOf(DType::kF16);
  EXPECT_EQ(UlpAt(half, 1.0), 0x1p-10);
  EXPECT_EQ(UlpAt(half, -3.5), 0x1p-9);
  EXPECT_EQ(UlpAt(half, 65504), 32);
  EXPECT_EQ(UlpAt(half, 0x1p-14), 0x1p-24);
  EXPECT_EQ(UlpAt(half, 0x1p-20), 0x1p-24);
  EXPECT_EQ(UlpAt(half, 0.0), 0x1p-24);
  EXPECT_EQ(UlpAt(RuleOf(DType::kI8), 100.0), 1);
  EXPECT_EQ(UlpAt(RuleOf(DType::kI32), 0.0), 1);
}

TEST(CompareRule, OverflowIsInfinityOfTheSignOrNaN) {
  const CompareRule half = RuleOf(DType::kF16), e4m3 = RuleOf(DType::kE4M3FN);
  EXPECT_TRUE(IsOverflowOf(half, ValueClass::kPosInf, false));
  EXPECT_TRUE(IsOverflowOf(half, ValueClass::kNegInf, true));
  EXPECT_FALSE(IsOverflowOf(half, ValueClass::kNegInf, false));
  EXPECT_FALSE(IsOverflowOf(half, ValueClass::kPosInf, true));
  EXPECT_FALSE(IsOverflowOf(half, ValueClass::kNan, false));
  EXPECT_TRUE(IsOverflowOf(e4m3, ValueClass::kNan, false));
  EXPECT_TRUE(IsOverflowOf(e4m3, ValueClass::kNan, true));
  EXPECT_FALSE(IsOverflowOf(e4m3, ValueClass::kPosInf, false));
}

TEST(CompareRule, InfinityIsAnUlpPastTheLargestNumber) {
  const CompareRule rule = RuleOf(DType::kF16);
  Judgement j = {};
  j.actual = 1.0 + 0x1p-9;
  j.rounded = 1.0;
  j.class_ok = true;
  EXPECT_EQ(UlpDistance(rule, j), 2);
  j.class_ok = false;  // of finite numbers it says nothing
  EXPECT_EQ(UlpDistance(rule, j), 2);
  j.actual_class = ValueClass::kPosInf;
  EXPECT_EQ(UlpDistance(rule, j), kInf);
  j.class_ok = true;
  j.actual = kInf;
  j.rounded = 65504;
  EXPECT_EQ(UlpDistance(rule, j), 1);
  j.rounded = -65408;
  EXPECT_EQ(UlpDistance(rule, j), 4);
  j.expected_class = ValueClass::kPosInf;
  EXPECT_EQ(UlpDistance(rule, j), 0);
  j.actual_class = ValueClass::kFinite;
  j.actual = 65440;
  j.rounded = kInf;
  EXPECT_EQ(UlpDistance(rule, j), 3);
}

TEST(CompareRule, BoundsOfAnElement) {
  CompareRequest request;
  request.output.dtype = DType::kF16;
  request.proven_factor = 3;
  const CompareRule rule(request);
  for (const double r : {1.0, -4.0, 100.0}) {
    const Judgement j = JudgeHalf(rule, r + 0.5, r, 0.25);
    const double u = 0x1p-11, rounding = std::abs(r) * u + 0x1p-25;
    EXPECT_EQ(j.actual, r + 0.5);
    EXPECT_EQ(j.expected, r);
    EXPECT_EQ(j.rounded, r);
    EXPECT_EQ(j.expected_bits, RoundToFormat(r, DType::kF16));
    EXPECT_DOUBLE_EQ(j.bound, rounding + (1 + u) * 0.25);
    EXPECT_DOUBLE_EQ(j.bound_proven, rounding + (1 + u) * 0.75);
    EXPECT_EQ(j.error, 0.5);
    EXPECT_EQ(j.rho, 0.5 / j.bound);
    EXPECT_EQ(j.rho_proven, 0.5 / j.bound_proven);
    EXPECT_TRUE(j.class_ok);
    EXPECT_TRUE(j.pair);
  }
}

TEST(CompareRule, ExactElementsHaveNoBound) {
  CompareRequest request;
  request.output.dtype = DType::kF16;
  request.exact = true;
  const CompareRule rule(request);
  for (const double e : {0.0, 100.0, kNaN}) {
    Judgement j = JudgeHalf(rule, 2048, 2049, e);
    EXPECT_EQ(j.expected, 2048);
    EXPECT_EQ(j.error, 0);
    EXPECT_EQ(j.bound, 0);
    EXPECT_EQ(j.bound_proven, 0);
    EXPECT_FALSE(j.mismatch);
    j = JudgeHalf(rule, 2050, 2049, e);
    EXPECT_EQ(j.error, 2);
    EXPECT_EQ(j.rho, kInf);
    EXPECT_TRUE(j.mismatch);
  }
  // Half an ulp above the largest number rounds to infinity, and there is no tolerance.
  EXPECT_FALSE(JudgeHalf(rule, 65504, 65520, 0).class_ok);
  EXPECT_TRUE(JudgeHalf(rule, kInf, 65520, 0).class_ok);
}

TEST(CompareRule, AnElementWithoutAPairHasNoError) {
  const CompareRule rule = RuleOf(DType::kF16);
  for (const auto& [actual, r] : {std::pair{kNaN, 1.0}, {kInf, kInf}, {1.0, kNaN}, {kNaN, kNaN}}) {
    const Judgement j = JudgeHalf(rule, actual, r, 1e6);
    EXPECT_FALSE(j.pair);
    EXPECT_EQ(j.error, 0);
    EXPECT_EQ(j.rho, 0);
    EXPECT_EQ(j.rho_proven, 0);
    EXPECT_EQ(j.class_ok, std::isinf(r) || (std::isnan(r) && std::isnan(actual)));
    EXPECT_EQ(j.mismatch, !j.class_ok);
  }
  // NaN would round to a number of a format without NaN.
  const CompareRule small = RuleOf(DType::kE2M1);
  EXPECT_FALSE(JudgeElement(small, 0x7, kNaN, 1e6).class_ok);
}

// A finite output where r rounds to infinity: the gate's own bound must reach the threshold.
TEST(CompareRule, FiniteBeyondTheThresholdByTheGatesBound) {
  const CompareRule probable = PlainHalf(Gate::kBoundProbable), proven = PlainHalf(Gate::kBound);
  for (const double sign : {1.0, -1.0}) {
    const auto ok = [&](const CompareRule& rule, double r, double e) {
      return JudgeHalf(rule, sign * 65504, sign * r, e).class_ok;
    };
    EXPECT_TRUE(ok(probable, 65530, 10)) << "exactly up to the threshold";
    EXPECT_FALSE(ok(probable, 65530, 9.5));
    EXPECT_TRUE(ok(proven, 65530, 5));
    EXPECT_FALSE(ok(proven, 65530, 4.5));
    EXPECT_FALSE(ok(probable, 65530, 5));
  }
}

// Infinity where r rounds to a number: as far as the arithmetic or a tolerance reaches.
TEST(CompareRule, InfinityBelowTheThresholdByWhatReachesIt) {
  const auto ok = [](const CompareRule& rule, double actual, double r, double e) {
    return JudgeHalf(rule, actual, r, e).class_ok;
  };
  const CompareRule probable = PlainHalf(Gate::kBoundProbable), proven = PlainHalf(Gate::kBound);
  EXPECT_TRUE(ok(probable, kInf, 65500, 20)) << "exactly to the threshold";
  EXPECT_FALSE(ok(probable, kInf, 65500, 19.5));
  EXPECT_TRUE(ok(proven, kInf, 65500, 10));
  EXPECT_FALSE(ok(proven, kInf, 65500, 9.5));
  EXPECT_FALSE(ok(probable, -kInf, 65500, 20)) << "of the other sign";
  EXPECT_TRUE(ok(probable, -kInf, -65500, 20));
  EXPECT_FALSE(ok(probable, kInf, -65500, 20));
  EXPECT_TRUE(ok(probable, kInf, 0.5, 70000));
  EXPECT_TRUE(ok(probable, kInf, 0.0, 70000));
  EXPECT_FALSE(ok(probable, kNaN, 65500, 20));
  // Beyond the largest number the conversion decides; at it, nothing reaches.
  EXPECT_TRUE(ok(probable, kInf, 65504.5, 0));
  EXPECT_FALSE(ok(probable, kInf, 65504, 0));
  EXPECT_FALSE(ok(probable, kInf, 65504, 15.5));
}

TEST(CompareRule, AToleranceReachesAnUlpAtMost) {
  const auto ok = [](Gate gate, double atol, double rtol, double max_ulp, double r) {
    CompareRule rule = PlainHalf(gate);
    rule.atol = atol;
    rule.rtol = rtol;
    rule.max_ulp = max_ulp;
    return JudgeHalf(rule, kInf, r, 0).class_ok;
  };
  EXPECT_TRUE(ok(Gate::kAllClose, 24, 0, 0, 65496));
  EXPECT_FALSE(ok(Gate::kAllClose, 23.5, 0, 0, 65496));
  EXPECT_TRUE(ok(Gate::kAllClose, 1000, 0, 0, 65488)) << "an ulp is 32";
  EXPECT_FALSE(ok(Gate::kAllClose, 1000, 0, 0, 65487.5));
  EXPECT_FALSE(ok(Gate::kAllClose, 10, 0, 0, 65500));
  EXPECT_TRUE(ok(Gate::kAllClose, 4, 0x1p-12, 0, 65500.5));  // 4 + 15.99
  EXPECT_FALSE(ok(Gate::kAllClose, 0, 0x1p-12, 0, 65500.5));
  EXPECT_TRUE(ok(Gate::kUlp, 0, 0, 0.5, 65504));
  EXPECT_FALSE(ok(Gate::kUlp, 0, 0, 0.25, 65504));
  EXPECT_TRUE(ok(Gate::kUlp, 0, 0, 7, 65488));
  EXPECT_FALSE(ok(Gate::kUlp, 0, 0, 7, 65487.5));
  EXPECT_FALSE(ok(Gate::kUlp, 100, 1, 0, 65504));
  // No other gate looks at a tolerance.
  for (const Gate gate : {Gate::kBound, Gate::kBoundProbable, Gate::kBitwise}) {
    EXPECT_FALSE(ok(gate, 100, 1, 7, 65504)) << static_cast<int>(gate);
  }
}

// Each gate accepts up to its own bound, the bound itself included.
TEST(CompareRule, EveryGateAcceptsUpToItsBound) {
  const auto judge = [](Gate gate, double actual, double r, double e) {
    CompareRule rule = PlainHalf(gate);
    rule.atol = 0.5;
    rule.rtol = 0.25;
    rule.max_ulp = 3;
    return JudgeHalf(rule, actual, r, e);
  };
  const struct {
    Gate gate;
    double r, e, bound, inside, outside;
  } rows[] = {{Gate::kBoundProbable, 1, 0.5, 0.5, 1.5, 1.625},
              {Gate::kBound, 1, 0.5, 1.0, 2.0, 2.25},
              {Gate::kAllClose, 2, 100, 1.0, 3.0, 3.25},
              {Gate::kUlp, 1, 100, 3 * 0x1p-10, 1 + 3 * 0x1p-10, 1 + 4 * 0x1p-10},
              {Gate::kBitwise, 1, 100, 0.0, 1.0, 1 + 0x1p-10}};
  for (const auto& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.gate));
    EXPECT_EQ(judge(row.gate, row.inside, row.r, row.e).gate_bound, row.bound);
    EXPECT_FALSE(judge(row.gate, row.inside, row.r, row.e).mismatch);
    EXPECT_TRUE(judge(row.gate, row.outside, row.r, row.e).mismatch);
    EXPECT_TRUE(judge(row.gate, kNaN, row.r, row.e).mismatch);
    EXPECT_TRUE(judge(row.gate, 1.0, kNaN, row.e).mismatch);
    EXPECT_FALSE(judge(row.gate, kNaN, kNaN, row.e).mismatch);
    EXPECT_FALSE(judge(row.gate, kInf, kInf, kNaN).mismatch);
    EXPECT_TRUE(judge(row.gate, kInf, -kInf, kNaN).mismatch);
  }
  // NaNs of other bits are equal.
  const CompareRule rule = RuleOf(DType::kF16, Gate::kBitwise);
  EXPECT_FALSE(JudgeElement(rule, 0xfe01, kNaN, 0).mismatch);
  // Ulps of a reference that is infinite are those of the largest number.
  EXPECT_EQ(judge(Gate::kUlp, kInf, kInf, 0).gate_bound, 96);
}

// Of every class two elements, so that each count is 2 and each place the first's.
TEST(CompareRule, CountsClassesAndKeepsTheFirstOfEach) {
  const CompareRule rule = RuleOf(DType::kF16);
  CompareTotals c;
  std::int64_t index = 100;
  const auto add = [&](std::uint64_t bits, double r) {
    AddToTotals(rule, ++index, bits, r, 0.0, &c);
    AddToTotals(rule, ++index, bits, r, 0.0, &c);
  };
  const auto value = [](double v) { return RoundToFormat(v, DType::kF16); };
  add(value(1), 1);                                 // 101
  add(value(kNaN), kNaN);                           // 103
  add(value(kInf), kInf);                           // 105
  add(PoisonBits(DType::kF16, Poison::kFirst), 2);  // 107
  add(value(kNaN), 1);                              // 109
  add(value(-kInf), kInf);                          // 111
  add(value(0), 0);                                 // 113
  add(value(-0.0), 1);                              // 115
  add(value(1), kNaN);                              // 117
  add(value(2), 0x1p-30);                           // 119
  EXPECT_EQ(c.count, 20);
  EXPECT_EQ(c.finite_pairs, 8);
  EXPECT_EQ(c.mismatches, 12);
  EXPECT_EQ(c.class_mismatches, 8);
  EXPECT_EQ(c.unwritten, 2);
  EXPECT_EQ(c.first_unwritten, 107);
  EXPECT_EQ(c.nan_count, 6);
  EXPECT_EQ(c.first_nan, 103);
  EXPECT_EQ(c.unexpected_nan, 2);
  EXPECT_EQ(c.first_unexpected_nan, 109);
  EXPECT_EQ(c.inf_count, 4);
  EXPECT_EQ(c.first_inf, 105);
  EXPECT_EQ(c.unexpected_inf, 2);
  EXPECT_EQ(c.first_unexpected_inf, 111);
  EXPECT_EQ(c.zero_count, 4);
  EXPECT_EQ(c.reference_nan_count, 4);
  EXPECT_EQ(c.reference_inf_count, 4);
  EXPECT_EQ(c.reference_zero_count, 4);
  EXPECT_EQ(c.max_abs_expected, 2);
  EXPECT_EQ(c.worst.index, 107);
  // Poison that nobody put there is a NaN.
  CompareRule clean = rule;
  clean.payload = false;
  CompareTotals other;
  AddToTotals(clean, 0, PoisonBits(DType::kF16, Poison::kFirst), 2, 0.0, &other);
  EXPECT_EQ(other.unwritten, 0);
  EXPECT_EQ(other.unexpected_nan, 1);
}

TEST(CompareRule, WorstIsTheFirstLargestRatio) {
  const CompareRule rule = PlainHalf(Gate::kBoundProbable);
  CompareTotals c;
  const auto add = [&](std::int64_t index, double error) {
    AddToTotals(rule, index, RoundToFormat(1 + error, DType::kF16), 1, 1, &c);
    return c.worst.index;
  };
  EXPECT_EQ(add(0, 0), 0) << "the first, though it has no error";
  EXPECT_EQ(add(1, 0), 0);
  EXPECT_EQ(add(2, 0.5), 2);
  EXPECT_EQ(add(3, 0.25), 2);
  EXPECT_EQ(add(4, 0.5), 2) << "of equal ones the first";
  EXPECT_EQ(add(5, 0.75), 5);
  EXPECT_EQ(c.worst.actual, 1.75);
  EXPECT_EQ(c.worst.expected, 1);
  EXPECT_EQ(c.worst.bound, 1);
  EXPECT_EQ(c.worst.actual_bits, RoundToFormat(1.75, DType::kF16));
  EXPECT_EQ(c.worst.expected_bits, RoundToFormat(1.0, DType::kF16));
  EXPECT_EQ(add(6, kNaN), 6) << "a wrong class is worse";
  EXPECT_EQ(add(7, kNaN), 6);
  EXPECT_EQ(add(8, 100), 6);
  CompareTotals first;
  AddToTotals(rule, 0, RoundToFormat(1.5, DType::kF16), 1, 1, &first);
  AddToTotals(rule, 1, RoundToFormat(1.25, DType::kF16), 1, 1, &first);
  EXPECT_EQ(first.worst.index, 0);
}

TEST(CompareRule, SumsAndLargestErrors) {
  const CompareRule rule = PlainHalf(Gate::kBoundProbable);
  CompareTotals c;
  const auto add = [&](double actual, double r, double e) {
    AddToTotals(rule, c.count, RoundToFormat(actual, DType::kF16), r, e, &c);
  };
  add(1.5, 1, 0.5);  // at the bound: within
  add(-3, -2, 0.5);  // at the proven bound, beyond the probable one
  add(8, 4, 0.5);    // beyond both
  add(0.5, 0, 1);    // no relative error
  add(4, 4, 0);
  EXPECT_EQ(c.beyond_probable, 2);
  EXPECT_EQ(c.beyond_proven, 1);
  EXPECT_EQ(c.mismatches, 2);
  EXPECT_EQ(c.rho, 8);
  EXPECT_EQ(c.rho_proven, 4);
  EXPECT_EQ(c.max_abs_error, 4);
  EXPECT_EQ(c.sum_abs_error, 6);
  EXPECT_EQ(c.sum_squared_error, 0.25 + 1 + 16 + 0.25);
  EXPECT_EQ(c.max_rel_error, 1);
  EXPECT_EQ(c.dot, 1.5 + 6 + 32 + 16);
  EXPECT_EQ(c.sum_squared_actual, 2.25 + 9 + 64 + 0.25 + 16);
  EXPECT_EQ(c.sum_squared_expected, 1 + 4 + 16 + 16);
  EXPECT_EQ(c.max_abs_expected, 4);
  EXPECT_EQ(c.max_ulp, 0.5 / 0x1p-24);
  CompareTotals one;
  AddToTotals(rule, 0, RoundToFormat(1.5, DType::kF16), 1, 1, &one);
  EXPECT_EQ(one.max_rel_error, 0.5);
  // Integers have no ulps and no bias.
  CompareTotals integers;
  AddToTotals(RuleOf(DType::kI8), 0, 7, 3, 0, &integers);
  EXPECT_EQ(integers.max_abs_error, 4);
  EXPECT_EQ(integers.max_ulp, 0);
  EXPECT_EQ(integers.bias_count, 0);
}

// Elements whose rounding is at least four times their allowance, and whose r is normal.
TEST(CompareRule, BiasIsOfElementsThatRoundingDecides) {
  CompareRule rule = RuleOf(DType::kF16);
  const double u = 0x1p-11;
  const auto totals = [&](double actual, double r, double e) {
    CompareTotals c;
    AddToTotals(rule, 0, RoundToFormat(actual, DType::kF16), r, e, &c);
    return c;
  };
  const CompareTotals up = totals(4.5, 4, u);  // exactly four times
  EXPECT_EQ(up.bias_count, 1);
  EXPECT_EQ(up.bias_sum, 0.5 / 0x1p-8);
  EXPECT_EQ(up.bias_sum_squared, 128 * 128);
  EXPECT_EQ(totals(4.5, 4, 1.25 * u).bias_count, 0);
  EXPECT_EQ(totals(4.5, 4, 100).bias_count, 0);
  EXPECT_EQ(totals(-4.5, -4, 0).bias_sum, 128) << "away from 0 is positive";
  EXPECT_EQ(totals(-3.5, -4, 0).bias_sum, -128);
  EXPECT_EQ(totals(0.5, 0.25, 0).bias_sum, 1024);
  EXPECT_EQ(totals(0.25, 0.5, 0).bias_sum, -512);
  EXPECT_EQ(totals(0x1p-13, 0x1p-14, 0).bias_count, 1) << "the smallest normal number";
  EXPECT_EQ(totals(0x1p-13, 0x1.ff8p-15, 0).bias_count, 0);
  EXPECT_EQ(totals(65472, 65504, 0).bias_count, 1) << "the largest number";
  EXPECT_EQ(totals(65504, 65505, 0).bias_count, 0);
  rule.exact = true;
  EXPECT_EQ(totals(4.5, 4, 0).bias_count, 0);
  // Sums go on.
  CompareTotals c;
  for (const double o : {4.5, 4.25, 3.5}) {
    AddToTotals(RuleOf(DType::kF16), c.count, RoundToFormat(o, DType::kF16), 4, 0, &c);
  }
  EXPECT_EQ(c.bias_count, 3);
  EXPECT_EQ(c.bias_sum, 64);
  EXPECT_EQ(c.bias_sum_squared, 128 * 128 * 2 + 64 * 64);
}

TEST(CompareRule, StorageIndexFollowsTheStrides) {
  const Extents shapes[] = {Extents::Dense(1, 1, 6), Extents::Dense(2, 3, 4),
                            {1, 2, 3, 5, 10},   // padded rows
                            {1, 3, 4, 7, 21},   // the same, three of them
                            {2, 3, 4, 4, 15},   // padding between matrices alone
                            {3, 1, 4, 4, 9},    // the same, of a row each
                            {2, 1, 4, 9, 4},    // one row each: its stride means nothing
                            {2, 3, 4, 4, 0},    // the same matrix twice
                            {4, 3, 5, 8, 29}};  // both
  for (const Extents& e : shapes) {
    std::int64_t logical = 0;
    for (std::int64_t b = 0; b < e.batch; ++b) {
      for (std::int64_t r = 0; r < e.rows; ++r) {
        for (std::int64_t c = 0; c < e.cols; ++c) {
          ASSERT_EQ(StorageIndex(e, logical++), b * e.batch_stride + r * e.ld + c)
              << e.batch << " " << e.rows << " " << e.ld << " " << e.batch_stride;
        }
      }
    }
  }
}

}  // namespace
}  // namespace assay
