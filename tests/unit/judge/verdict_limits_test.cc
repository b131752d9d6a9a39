// Where each verdict turns: the last evidence that passes, and the first that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/judge/verdict.h"
#include "kernels/ops/own_reference.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string_view Word(Verdict v) {
  switch (v) {
    case Verdict::kPassed:
      return "PASSED";
    case Verdict::kFailed:
      return "FAILED";
    case Verdict::kInconclusive:
      return "INCONCLUSIVE";
    case Verdict::kError:
      return "ERROR";
    default:
      return "another verdict";
  }
}

Operand Input(PatternKind kind, DType dtype = DType::kF16) {
  Operand o;
  o.dtype = dtype;
  o.pattern.kind = kind;
  return o;
}

PrecisionFinding Below(Verdict verdict, Reason reason, const std::string& message) {
  PrecisionFinding f;
  f.verdict = verdict;
  f.finding = {reason, message};
  return f;
}

// A product whose compare pass found nothing wrong, to be spoiled by each test.
class Limits : public ::testing::Test {
 protected:
  Limits() {
    case_.problem = GemmProblem{.m = 40, .n = 25, .k = 64};
    case_.dtype = DType::kF16;
    plan_.inputs = {Input(PatternKind::kNormal), Input(PatternKind::kUniform)};
    plan_.output.dtype = DType::kF16;
    plan_.output.dims = {1, 40, 25};
    plan_.accumulations = 64;
    plan_.zero_mean_random = true;
    result_.count = result_.finite_pairs = 1000;
    result_.max_abs_expected = 30;
  }

  Judgement Judged() {
    evidence_.compare = &result_;
    evidence_.gating = MakeGating(case_, plan_, result_.max_abs_expected);
    return Judge(case_, plan_, evidence_);
  }

  // "FAILED bound, threshold", or "PASSED".
  std::string Said() {
    const Judgement j = Judged();
    std::string text(Word(j.verdict));
    for (const Finding& f : j.findings) text += Cat(" ", ReasonWord(f.reason));
    return text;
  }

  std::string Message() {
    const Judgement j = Judged();
    return j.findings.empty() ? "nothing was found" : j.findings[0].message;
  }

  // A sample of signed errors with these moments.
  void SetBias(std::int64_t count, double mean, double variance) {
    result_.bias_count = count;
    result_.bias_sum = mean * static_cast<double>(count);
    result_.bias_sum_squared = (variance + mean * mean) * static_cast<double>(count);
  }

  Case case_;
  Plan plan_;
  CompareResult result_;
  Evidence evidence_;
};

// ---- memory

TEST_F(Limits, OneByteOutsideOrOneElementUnwrittenFails) {
  evidence_.guard_hits = 1;
  EXPECT_EQ(Said(), "FAILED guard");
  evidence_.guard_hits = 0;
  evidence_.unwritten = result_.unwritten = 1;
  EXPECT_EQ(Said(), "FAILED unwritten");
  EXPECT_THAT(Message(), Not(HasSubstr("first")));
  result_.first_unwritten = 0;
  EXPECT_THAT(Message(), HasSubstr("1 of 1,000 elements still hold the poison, first [0,0,0]"));
}

TEST_F(Limits, EachFaultIsFoundBesideTheOthers) {
  evidence_.guard_hits = 1;
  evidence_.changed_inputs = {"a", "b"};
  evidence_.unwritten = 1;
  result_.class_mismatches = 1;
  result_.beyond_proven = 1;
  evidence_.variants = 2;
  EXPECT_EQ(Said(), "FAILED guard guard unwritten class bound nondeterministic");
  EXPECT_EQ(Judged().findings[1].operand, "a, b");
}

// ---- classes

// Poison is NaN, so that elements that were not written are of a wrong class, too. Only the others
// count as such.
TEST_F(Limits, WrongClassesAreThoseBesideTheUnwritten) {
  evidence_.unwritten = result_.unwritten = 5;
  result_.nan_count = 5;
  for (const std::int64_t of_poison : {0, 4, 5}) {
    result_.class_mismatches = of_poison;
    EXPECT_EQ(Said(), "FAILED unwritten");
  }
  result_.class_mismatches = 6;
  result_.nan_count = 7;
  result_.reference_nan_count = 1;
  result_.inf_count = 3;
  result_.reference_inf_count = 4;
  EXPECT_EQ(Said(), "FAILED unwritten class");
  EXPECT_THAT(Judged().findings[1].message,
              HasSubstr("1 of 1,000 elements are of another class (NaN, +Inf, -Inf, finite) than "
                        "the reference: 2 NaN where 1 were expected, 3 Inf where 4 were"));
}

// Of an element whose own sums are small no overflow elsewhere is an excuse, and the finding says
// how many there are.
TEST_F(Limits, ElementsWithoutAnOverflowOfTheirOwnAreCounted) {
  result_.class_mismatches = 3;
  plan_.largest_intermediate = 1e39;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  evidence_.unexplained = Unexplained{.of_wrong_class = 0, .beyond_proven = 7};
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  evidence_.unexplained->of_wrong_class = 1;
  EXPECT_EQ(Said(), "FAILED class");
  EXPECT_THAT(Message(), HasSubstr("; 1 of them where no sum overflows"));
  plan_.largest_intermediate = 1;
  evidence_.unexplained->of_wrong_class = 0;
  EXPECT_EQ(Said(), "FAILED class");
}

// ---- criteria

// Elements of a wrong class are mismatches of every criterion. They are said once.
TEST_F(Limits, ACriterionCountsWhatTheClassesDoNot) {
  for (const Criterion c :
       {Criterion::kDerived, Criterion::kAllClose, Criterion::kUlp, Criterion::kBitwise}) {
    case_.criterion = c;
    result_.mismatches = result_.class_mismatches = 2;
    EXPECT_EQ(Said(), "FAILED class") << static_cast<int>(c);
    result_.mismatches = 3;
    EXPECT_EQ(Said(), c == Criterion::kBitwise ? "FAILED class exact" : "FAILED class threshold");
    EXPECT_THAT(Judged().findings[1].message, HasSubstr("1 of 1,000 elements"));
    result_.mismatches = result_.class_mismatches = 0;
    EXPECT_EQ(Said(), "PASSED") << static_cast<int>(c);
  }
}

TEST_F(Limits, UlpTakesItsLimitAndNoMore) {
  case_.criterion = Criterion::kUlp;
  case_.max_ulp = 2;
  result_.max_ulp = 2;
  EXPECT_EQ(Said(), "PASSED");
  result_.max_ulp = 2.5;
  EXPECT_EQ(Said(), "FAILED threshold") << "once: the limit is the criterion's own";
  result_.max_ulp = kNaN;
  EXPECT_EQ(Said(), "FAILED threshold");
}

TEST_F(Limits, LegacyTakesEachOfItsLimitsAndNoMore) {
  case_.criterion = Criterion::kLegacy;
  case_.atol = 0.5;
  case_.rtol = 0.25;
  result_.max_abs_error = 0.5;
  result_.max_rel_error = 0.25;
  EXPECT_EQ(Said(), "PASSED");
  result_.max_abs_error = 0.75;
  EXPECT_EQ(Said(), "FAILED threshold");
  result_.max_abs_error = 0.5;
  result_.max_rel_error = 0.375;
  EXPECT_EQ(Said(), "FAILED threshold");
  result_.max_rel_error = kNaN;
  EXPECT_EQ(Said(), "FAILED threshold");
}

// Which bits of fp64 are right is not known, unless the result is exact or the reference a user's.
TEST_F(Limits, BitsAreKnownWhereTheReferenceDoesNotRound) {
  case_.criterion = Criterion::kBitwise;
  EXPECT_EQ(Said(), "PASSED") << "fp16 against fp64";
  case_.dtype = plan_.output.dtype = DType::kF64;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  plan_.exact = true;
  EXPECT_EQ(Said(), "PASSED");
  plan_.exact = false;
  evidence_.computed = false;
  EXPECT_EQ(Said(), "PASSED");
  evidence_.computed = true;
  // Products of whole numbers and of one-hot rows are exact, if both operands are such.
  plan_.inputs = {Input(PatternKind::kIntegers), Input(PatternKind::kOneHot)};
  EXPECT_EQ(Said(), "PASSED");
  plan_.inputs[1].pattern.b = 1;  // sums of several products
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  plan_.inputs = {Input(PatternKind::kIntegers), Input(PatternKind::kNormal)};
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  // A function of them is not.
  plan_.inputs = {Input(PatternKind::kIntegers)};
  case_.problem = SoftmaxProblem{.rows = 40, .cols = 25};
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
}

// ---- the bound

TEST_F(Limits, OneElementBeyondItsBoundFails) {
  result_.beyond_proven = 1;
  EXPECT_EQ(Said(), "FAILED bound");
  EXPECT_THAT(Message(), HasSubstr("beyond their proven bound"));
  plan_.exact = true;
  EXPECT_EQ(Said(), "FAILED exact");
  EXPECT_THAT(Message(), HasSubstr("beyond the exact result"));
  plan_.exact = false;
  result_.beyond_proven = 0;
  result_.beyond_probable = 1;
  EXPECT_EQ(Said(), "FAILED bound");
  plan_.zero_mean_random = false;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
}

// A kernel may flush subnormal inputs. Of a user's tensors it is known whether that explains it.
TEST_F(Limits, OnlySubnormalInputsExcuse) {
  result_.beyond_proven = 1;
  plan_.inputs[1].pattern.kind = PatternKind::kDenormal;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  evidence_.flushing_explains = false;
  EXPECT_EQ(Said(), "FAILED bound");
  plan_.inputs[1].pattern.kind = PatternKind::kNormal;
  EXPECT_EQ(Said(), "FAILED bound");
  evidence_.flushing_explains = true;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  result_.beyond_proven = 0;
  EXPECT_EQ(Said(), "PASSED") << "nothing is beyond";
}

// Such as Winograd's: an element that is small beside its neighbours errs as they do.
TEST_F(Limits, ATransformIsHeldToItsBoundWhereNeighboursAreAsLarge) {
  result_.beyond_proven = 1;
  plan_.accumulator_roundoff = 0x1p-24;
  plan_.operand_roundoff = 0x1p-16;
  EXPECT_EQ(Said(), "FAILED bound");
  plan_.inputs[0] = Input(PatternKind::kSparse);
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("relative to their neighbours"));
  for (const PatternKind even : {PatternKind::kConstant, PatternKind::kIntegers,
                                 PatternKind::kAllPositive, PatternKind::kExtremes}) {
    plan_.inputs[0] = Input(even);
    EXPECT_EQ(Said(), "FAILED bound");
  }
  for (const PatternKind uneven :
       {PatternKind::kBernoulli, PatternKind::kDiagonal, PatternKind::kOneHot,
        PatternKind::kOneLarge, PatternKind::kLargeSmall, PatternKind::kExactSparse,
        PatternKind::kExactInts, PatternKind::kSequential, PatternKind::kRowVary,
        PatternKind::kColVary}) {
    plan_.inputs[0] = Input(uneven);
    EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  }
  plan_.operand_roundoff = 0x1p-22;
  EXPECT_EQ(Said(), "FAILED bound") << "operands that are split err by themselves";
  plan_.operand_roundoff = 0x1.001p-22;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  plan_.exact = true;
  EXPECT_EQ(Said(), "FAILED exact");
}

// Windows of few products beside others, as in the padding of a convolution.
TEST_F(Limits, ATransformOfEvenDataIsExcusedByWhatItExplains) {
  result_.beyond_proven = 1;
  plan_.accumulator_roundoff = 0x1p-24;
  plan_.operand_roundoff = 0x1p-16;
  evidence_.transform_explains = true;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), Not(HasSubstr("--pattern normal"))) << "it is normal";
  plan_.inputs[0] = Input(PatternKind::kSparse);
  EXPECT_THAT(Message(), HasSubstr("--pattern normal"));
  plan_.operand_roundoff = 0x1p-22;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect") << "one in double needs no declaration";
  evidence_.precision = {Below(Verdict::kFailed, Reason::kPrecision, "too coarse")};
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect") << "the usual errors have no room for it";
  evidence_.precision[0].names_format = true;
  EXPECT_EQ(Said(), "FAILED precision suspect") << "no transform leaves the errors of a format";
  evidence_.precision.clear();
  plan_.exact = true;
  EXPECT_EQ(Said(), "FAILED exact");
}

TEST_F(Limits, AnExactResultIsNotExcusedByAnOverflow) {
  result_.beyond_proven = 1;
  plan_.largest_intermediate = 1e39;
  case_.problem = LayerNormProblem{};
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  plan_.exact = true;
  EXPECT_EQ(Said(), "FAILED exact");
}

// ---- bias

// z = mean/(deviation/√n): with 256 errors of deviation 1/2 a mean of 1/4 has z = 8.
TEST_F(Limits, ABiasIsEightOfItsStandardErrors) {
  SetBias(256, 0.25, 0.25);
  EXPECT_EQ(Judged().bias_z, 8.0);
  EXPECT_EQ(Said(), "PASSED");
  SetBias(256, 0.2539, 0.25);
  EXPECT_EQ(Said(), "FAILED bias");
  SetBias(256, -0.2539, 0.25);
  EXPECT_EQ(Said(), "FAILED bias");
  SetBias(255, 0.45, 0.25);
  EXPECT_EQ(Said(), "PASSED") << "too few to tell";
  EXPECT_FALSE(Judged().bias_z.has_value());
}

// The deviation never counts as less than that of rounding to nearest, 1/√12.
TEST_F(Limits, ANarrowSampleHasTheDeviationOfRounding) {
  SetBias(1200, 0.25, 0);
  EXPECT_NEAR(Judged().bias_z.value_or(0), 0.25 * 120, 1e-9);
  result_.bias_sum_squared -= 1e-9;  // rounding of the sums
  EXPECT_NEAR(Judged().bias_z.value_or(0), 0.25 * 120, 1e-9);
}

TEST_F(Limits, ABiasIsAFifthOfAnUlpAndSpread) {
  SetBias(4096, 0.2, 1.0 / 12);
  EXPECT_EQ(Said(), "PASSED");
  SetBias(4096, 0.2001, 1.0 / 12);
  EXPECT_EQ(Said(), "FAILED bias");
  SetBias(4096, -0.2001, 1.0 / 12);
  EXPECT_EQ(Said(), "FAILED bias");
  SetBias(4096, 0.3125, 0.04);  // the spread is 0.2
  EXPECT_EQ(Said(), "PASSED");
  SetBias(4096, 0.3125, 0.0401);
  EXPECT_EQ(Said(), "FAILED bias");
}

TEST_F(Limits, OnlyIndependentRoundingsAreABias) {
  SetBias(4096, -0.5, 1.0 / 12);
  EXPECT_EQ(Said(), "FAILED bias");
  EXPECT_THAT(Message(), HasSubstr("mean signed error -0.500 ulp over 4,096 elements"));
  plan_.inputs[1] = Input(PatternKind::kSparse);
  EXPECT_EQ(Said(), "PASSED") << "a few distinct values repeat one error";
  plan_.inputs[1] = Input(PatternKind::kSparse, DType::kI8);
  EXPECT_EQ(Said(), "FAILED bias") << "of weights the scales are drawn";
  plan_.inputs = {Input(PatternKind::kNormal, DType::kE5M2)};
  EXPECT_EQ(Said(), "PASSED") << "a row of an 8-bit format has a few distinct values";
  plan_.inputs = {Input(PatternKind::kNormal, DType::kF16)};
  EXPECT_EQ(Said(), "FAILED bias");
  plan_.exact = true;
  EXPECT_EQ(Said(), "PASSED");
  EXPECT_FALSE(Judged().bias_z.has_value());
}

// Of tensors that were sent nothing is known, but that hardly any right kernel has such a mean.
TEST_F(Limits, OfSentTensorsABiasIsFourTenthsOfAnUlp) {
  evidence_.received = true;
  SetBias(4096, -0.4, 1.0 / 12);
  EXPECT_EQ(Said(), "PASSED");
  SetBias(4096, -0.4001, 1.0 / 12);
  EXPECT_EQ(Said(), "INCONCLUSIVE bias");
  SetBias(4096, 0.4001, 1.0 / 12);
  EXPECT_EQ(Said(), "INCONCLUSIVE bias");
}

// ---- errors below the bound

TEST_F(Limits, ErrorsBelowTheBoundDecideIfTheBoundGates) {
  evidence_.precision = {Below(Verdict::kFailed, Reason::kPrecision, "too coarse")};
  EXPECT_EQ(Said(), "FAILED precision");
  EXPECT_EQ(Message(), "too coarse");
  case_.criterion = Criterion::kBound;
  EXPECT_EQ(Said(), "FAILED precision");
  case_.criterion = Criterion::kAllClose;
  EXPECT_EQ(Said(), "PASSED") << "a tolerance that was asked for by name lets it by";
}

// An element beyond its bound says more than the errors of all of them.
TEST_F(Limits, WhatFailedAlreadyNeedsNoPrecision) {
  evidence_.precision = {Below(Verdict::kFailed, Reason::kPrecision, "too coarse")};
  result_.beyond_proven = 1;
  EXPECT_EQ(Said(), "FAILED bound");
  // Elements that a kernel may flush to 0 err by more than rounding.
  plan_.inputs[1].pattern.kind = PatternKind::kDenormal;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  result_.beyond_proven = 0;
  EXPECT_EQ(Said(), "FAILED precision") << "nothing is beyond its bound";
}

// A norm of infinite deviation is 0, which no rounding explains either.
TEST_F(Limits, WhatAnOverflowMakesZeroIsNoErrorOfPrecision) {
  case_.problem = LayerNormProblem{};
  evidence_.precision = {Below(Verdict::kFailed, Reason::kStructure, "too small")};
  result_.beyond_proven = 7;
  result_.zero_count = 10;
  result_.reference_zero_count = 3;
  EXPECT_EQ(Said(), "FAILED bound");
  plan_.largest_intermediate = 1e39;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  result_.reference_zero_count = 4;
  EXPECT_EQ(Said(), "FAILED structure suspect") << "one of them is no 0";
  result_.reference_zero_count = 3;
  evidence_.unexplained = Unexplained{.of_wrong_class = 0, .beyond_proven = 1};
  EXPECT_EQ(Said(), "FAILED bound");
  evidence_.unexplained->beyond_proven = 0;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  result_.beyond_proven = 0;
  EXPECT_EQ(Said(), "FAILED structure") << "nothing is beyond its bound";
}

TEST_F(Limits, WhatDecidesComesBeforeWhatIsDoubted) {
  evidence_.precision = {Below(Verdict::kInconclusive, Reason::kSuspect, "one"),
                         Below(Verdict::kFailed, Reason::kStructure, "two"),
                         Below(Verdict::kFailed, Reason::kPrecision, "three")};
  const Judgement j = Judged();
  EXPECT_EQ(j.verdict, Verdict::kFailed);
  ASSERT_EQ(j.findings.size(), 3u);
  EXPECT_EQ(j.findings[0].message, "two");
  EXPECT_THAT(j.findings[1].message, ::testing::StartsWith("one; whether the order of the terms"));
  EXPECT_EQ(j.findings[2].message, "three") << "after what decided before it";
  evidence_.precision.resize(1);
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  // What the bound doubts comes first, unless the precision decides.
  result_.beyond_probable = 1;
  plan_.zero_mean_random = false;
  EXPECT_THAT(Message(), HasSubstr("probabilistic bound"));
  evidence_.precision = {Below(Verdict::kFailed, Reason::kStructure, "two")};
  EXPECT_EQ(Said(), "FAILED structure suspect");
}

// ---- thresholds

TEST_F(Limits, AThresholdTakesItsLimitAndNoMore) {
  case_.max_abs_error = 0.5;
  result_.max_abs_error = 0.5;
  case_.max_rel_error = 0.25;
  result_.max_rel_error = 0.25;
  case_.max_ulp = 3;
  result_.max_ulp = 3;
  EXPECT_EQ(Said(), "PASSED");
  result_.max_abs_error = 0.75;
  EXPECT_THAT(Message(), HasSubstr("max abs error is 0.75, at most 0.5 allowed"));
  result_.max_rel_error = 0.375;
  result_.max_ulp = 4;
  EXPECT_EQ(Said(), "FAILED threshold threshold threshold");
}

// What explains a bound's excess afterwards does not excuse one.
TEST_F(Limits, ABrokenOneIsToldFromABound) {
  result_.beyond_proven = 1;
  EXPECT_FALSE(Judged().beyond_limit);
  case_.min_efficiency = 0.5;
  EXPECT_FALSE(Judged().beyond_limit) << "not known";
  evidence_.efficiency = 0.4;
  EXPECT_TRUE(Judged().beyond_limit);
  case_.min_efficiency.reset();
  case_.max_abs_error = 0.5;
  result_.max_abs_error = 0.75;
  EXPECT_TRUE(Judged().beyond_limit);
}

TEST_F(Limits, AnEfficiencyTakesItsLimitAndNoLess) {
  case_.min_efficiency = 0.5;
  evidence_.efficiency = 0.5;
  EXPECT_EQ(Said(), "PASSED");
  evidence_.efficiency = 0.49;
  EXPECT_EQ(Said(), "FAILED efficiency");
  evidence_.undisturbed_efficiency = 0.5;
  EXPECT_EQ(Said(), "INCONCLUSIVE efficiency");
  evidence_.undisturbed_efficiency = 0.49;
  EXPECT_EQ(Said(), "FAILED efficiency");
  evidence_.efficiency_due = false;
  EXPECT_EQ(Said(), "PASSED") << "the timed launches are still to come";
  case_.min_efficiency.reset();
  evidence_.efficiency_due = true;
  EXPECT_EQ(Said(), "PASSED") << "nothing was asked for";
}

TEST_F(Limits, AMissingEfficiencySaysWhyItIsMissing) {
  case_.min_efficiency = 0.5;
  case_.mode = Mode::kBenchmark;
  EXPECT_EQ(Said(), "INCONCLUSIVE efficiency");
  EXPECT_THAT(Message(), HasSubstr("no roof could be measured"));
  evidence_.in_cache = true;
  EXPECT_THAT(Message(), HasSubstr("the data fit the cache"));
  case_.mode = Mode::kValidate;
  EXPECT_THAT(Message(), HasSubstr("was not timed"));
}

TEST_F(Limits, SharesKeepTwoDigits) {
  case_.min_efficiency = 0.001;
  evidence_.efficiency = 0.000421;
  EXPECT_THAT(Message(), HasSubstr("reached 0.042 % of the roof, at least 0.1 % asked for"));
  evidence_.efficiency = 0.0007;
  EXPECT_THAT(Message(), HasSubstr("reached 0.07 %"));
  case_.min_efficiency = 0.01;
  evidence_.efficiency = 0.00154;
  EXPECT_THAT(Message(), HasSubstr("reached 0.2 %"));
  evidence_.efficiency = 0;
  EXPECT_THAT(Message(), HasSubstr("reached 0.0 % of the roof"));
}

// ---- launches

TEST_F(Limits, LaunchesThatDifferSayHow) {
  evidence_.launches = 10;
  EXPECT_EQ(Said(), "PASSED");
  evidence_.variants = 2;
  EXPECT_THAT(Message(), HasSubstr("2 different outputs in 10 launches on the same data"));
  EXPECT_THAT(Message(), Not(HasSubstr("data:")));
  evidence_.deviation = "one bit";
  EXPECT_THAT(Message(), HasSubstr("data: one bit"));
}

// ---- what proves nothing

TEST_F(Limits, NinetyNineHundredthsOfZerosProveTooLittle) {
  result_.zero_count = 990;
  EXPECT_EQ(Said(), "PASSED");
  result_.zero_count = 991;
  EXPECT_EQ(Said(), "INCONCLUSIVE zeros");
  EXPECT_THAT(Message(), HasSubstr("99.1 % of the output is 0 as it should be"));
  result_.zero_count = 1000;
  EXPECT_THAT(Message(), HasSubstr("the reference is not"));
  result_.reference_zero_count = 1000;
  EXPECT_THAT(Message(), HasSubstr("and so is the reference"));
  EXPECT_EQ(Said(), "INCONCLUSIVE zeros");
}

TEST_F(Limits, AnEmptyOutputIsSaidToBeEmpty) {
  result_ = CompareResult{};
  EXPECT_EQ(Said(), "INCONCLUSIVE empty");
}

TEST_F(Limits, AWideBoundProvesLittle) {
  plan_.vacuous = true;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("sums of 64 terms: the error bound is so wide"));
  plan_.elementwise = true;
  EXPECT_THAT(Message(), Not(HasSubstr("sums of")));
  case_.criterion = Criterion::kBound;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  case_.criterion = Criterion::kAllClose;
  EXPECT_EQ(Said(), "PASSED") << "another criterion does not rest on it";
}

TEST_F(Limits, ABoundThatTheDataMakeWideProvesLittle) {
  evidence_.rechecked = 1024;
  evidence_.unproven = 0.75;
  EXPECT_EQ(Said(), "PASSED") << "exact cases judge, too, where data are drawn";
  evidence_.received = true;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("the results, for 75.0 % of them by magnitude"));
  evidence_.unproven = 0.5;
  EXPECT_EQ(Said(), "PASSED");
  evidence_.unproven = 0.75;
  case_.dtype = DType::kE5M2;
  EXPECT_EQ(Said(), "PASSED") << "attention averages to less than it rounds by";
  case_.dtype = DType::kF16;
  evidence_.received = false;
  case_.probes = false;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect") << "nothing else judges";
  case_.probes = true;
  case_.flushes_subnormals = true;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect") << "the declaration may be what makes the bound wide";
  case_.flushes_subnormals = false;
  evidence_.unbounded = 1;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("at 1 of 1,024 sampled elements the terms overflow FP64"));
  plan_.vacuous = true;
  EXPECT_THAT(Message(), HasSubstr("sums of 64 terms")) << "the problem's width says enough";
  plan_.vacuous = false;
  case_.criterion = Criterion::kAllClose;
  EXPECT_EQ(Said(), "PASSED") << "another criterion does not rest on it";
}

TEST_F(Limits, TermsThatOverflowOutsideTheSamplesProveNothingEither) {
  evidence_.rechecked = 1024;
  evidence_.all_unbounded = 1;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("at 1 of 1,000 elements the terms overflow FP64"));
  evidence_.unbounded = 2;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("at 2 of 1,024 sampled elements the terms overflow FP64"));
  evidence_.unbounded = 0;
  result_.beyond_proven = 1;
  EXPECT_EQ(Said(), "FAILED bound");
  result_.beyond_proven = 0;
  case_.criterion = Criterion::kAllClose;
  EXPECT_EQ(Said(), "PASSED") << "another criterion does not rest on it";
}

// A row whose squares underflow holds no infinity to anything.
TEST_F(Limits, RowsWithoutABoundProveNothing) {
  case_.problem = LayerNormProblem{.eps = 0};
  evidence_.all_unbounded = 1;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("squares of a row may underflow"));
  case_.criterion = Criterion::kAllClose;
  EXPECT_EQ(Said(), "PASSED") << "numbers are held to a tolerance";
  result_.inf_count = 1;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  case_.criterion = Criterion::kBound;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect") << "once";
  case_.criterion = Criterion::kAllClose;
  evidence_.all_unbounded = 0;
  EXPECT_EQ(Said(), "PASSED") << "it is no such row's";
  evidence_.all_unbounded = 1;
  case_.problem = LayerNormProblem{};
  EXPECT_EQ(Said(), "PASSED");
}

TEST_F(Limits, TermsThatOverflowAreSaidOnce) {
  evidence_.received = true;
  evidence_.rechecked = 1024;
  evidence_.unbounded = 1;
  evidence_.unproven = 0.75;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
}

// A reference that says how much its bound allows, of an operator that is nobody's but its
// author's.
class Allows final : public OwnReference {
 public:
  double share = 0;
  absl::StatusOr<bool> Compute(const Case&, const Plan&, std::span<const TensorView>, double*,
                               double*) override {
    return absl::UnimplementedError("not asked for");
  }
  void At(const Plan&, const HostInputs&, std::span<const std::int64_t>, double*,
          double*) override {}
  bool gave_magnitudes() const override { return true; }
  double largest() const override { return 1; }
  double ShareWithin(const std::function<double(double)>&) const override { return share; }
};

TEST_F(Limits, ABoundThatAllowsZeroProvesLittle) {
  Allows reference;
  case_.problem = CustomProblem{.input = {"x=40x25"}, .out = {"y=40x25"}, .scalar = {}};
  case_.own_reference = &reference;
  EXPECT_EQ(Said(), "PASSED");
  reference.share = 0.51;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("allows 51 % of the results to be 0"));
  case_.criterion = Criterion::kAllClose;
  EXPECT_EQ(Said(), "PASSED") << "another criterion does not rest on it";
}

TEST_F(Limits, AnOperatorOfOnesOwnThatIsNaNEverywhereProvesNothing) {
  case_.problem = CustomProblem{.input = {"x=40x25"}, .out = {"y=40x25"}, .scalar = {}};
  result_.nan_count = 999;
  EXPECT_EQ(Said(), "PASSED");
  result_.nan_count = result_.reference_nan_count = 1000;
  result_.zero_count = 0;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_THAT(Message(), HasSubstr("every element of output and reference is NaN"));
  plan_.vacuous = true;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect") << "there is nothing more to say";
  case_.problem = GemmProblem{.m = 40, .n = 25, .k = 64};
  plan_.vacuous = false;
  EXPECT_EQ(Said(), "PASSED") << "of an operator of ours a NaN has its rule";
}

TEST_F(Limits, OnlyABoundThatForgivesFlushingProvesLittleBelowIt) {
  const double min_normal = Info(DType::kF16).min_normal;
  result_.max_abs_expected = min_normal / 2;
  EXPECT_EQ(Said(), "PASSED");
  evidence_.flushed = true;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  evidence_.flushed = false;
  case_.flushes_subnormals = true;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  result_.max_abs_expected = min_normal;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  result_.max_abs_expected = 1.001 * min_normal;
  EXPECT_EQ(Said(), "PASSED");
  result_.max_abs_expected = 0;
  result_.finite_pairs = 1;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  result_.finite_pairs = 0;
  EXPECT_EQ(Said(), "PASSED") << "no number was expected";
  result_.finite_pairs = 1000;
  case_.criterion = Criterion::kAllClose;
  EXPECT_EQ(Said(), "PASSED");
}

// What is wrong already is not said to prove nothing.
TEST_F(Limits, AFailureNeedsNoProof) {
  result_.zero_count = result_.reference_zero_count = 1000;
  result_.beyond_proven = 1;
  EXPECT_EQ(Said(), "FAILED bound");
  // What is not known yet may prove nothing besides.
  result_.beyond_proven = 0;
  result_.beyond_probable = 1;
  plan_.zero_mean_random = false;
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect zeros");
}

// ---- the order of findings

TEST_F(Limits, AFaultOfTheDeviceIsTheOnlyFinding) {
  evidence_.recheck_fault = "host and device disagree";
  result_.beyond_proven = 1;
  evidence_.changed_inputs = {"a"};
  EXPECT_EQ(Said(), "ERROR fault");
  EXPECT_EQ(Message(), "host and device disagree");
  evidence_.guard_hits = 1;
  EXPECT_EQ(Said(), "FAILED guard guard bound") << "the kernel may have spoiled the reference";
}

// Sums that overflow FP64 explain the disagreement: nobody is to blame, and nothing is proven.
TEST_F(Limits, ADisagreementThatIsExcusedHidesNoOtherFinding) {
  evidence_.recheck_excuse = "host and device disagree, and FP64 overflows";
  EXPECT_EQ(Said(), "INCONCLUSIVE suspect");
  EXPECT_EQ(Message(), evidence_.recheck_excuse);
  result_.beyond_proven = 1;
  EXPECT_EQ(Said(), "FAILED bound");
  result_.beyond_proven = 0;
  evidence_.variants = 2;
  EXPECT_EQ(Said(), "FAILED nondeterministic");
  evidence_.changed_inputs = {"a"};
  EXPECT_EQ(Said(), "FAILED guard nondeterministic");
}

TEST_F(Limits, TheWorstElementIsNamedIfThereIsOne) {
  result_.beyond_proven = 1;
  EXPECT_THAT(Message(), Not(HasSubstr("worst")));
  EXPECT_EQ(Judged().findings[0].headline, Finding{}.headline);
  result_.worst = {.index = 0,
                   .actual = 1.5,
                   .expected = 2,
                   .bound = 0.25,
                   .actual_bits = 0x3e00,
                   .expected_bits = 0x4000};
  EXPECT_THAT(Message(), HasSubstr("; worst [0,0,0] got 1.5 (0x3e00), expected 2 (0x4000) ± 0.25"));
  result_.worst.expected = 1.5000001;
  EXPECT_THAT(Message(), HasSubstr("got 1.5 (0x3e00), expected 1.5000001 (0x4000) ± 0.25"))
      << "as many digits as tell them apart";
  result_.worst.actual = std::bit_cast<double>(0xfff8000000000000);
  EXPECT_THAT(Message(), HasSubstr("got nan (")) << "whatever its sign";
  // Only a tolerance below the format's own rounding tells these apart.
  result_.worst.actual_bits = result_.worst.expected_bits = 0x4000;
  result_.worst.actual = 2;
  result_.worst.expected = 2.0001;
  EXPECT_THAT(Message(), HasSubstr("got 2 (0x4000), which is what the expected 2.0001 ± 0.25"));
  result_.worst.expected = 2;
  EXPECT_THAT(Message(), Not(HasSubstr("which is what"))) << "they are the same number";
  result_.worst.actual_bits = 1;
  EXPECT_THAT(Message(), HasSubstr("(0x0001)")) << "every bit of the format is shown";
  plan_.output.dtype = DType::kE2M1;
  EXPECT_THAT(Message(), HasSubstr("(0x1)")) << "four bits are one digit";
}

// A batch of no matrices has coordinates all the same.
TEST(Coordinates, OfAnEmptyDimensionAreZero) {
  EXPECT_EQ(Coordinates(5, {2, 0}), "[0,0]");
  EXPECT_EQ(Coordinates(5, {6}), "[5]");
  EXPECT_EQ(Coordinates(6, {4, 1}), "[2,0]") << "past the end it wraps";
}

}  // namespace
}  // namespace assay
