#include "kernels/judge/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace assay {
namespace {

using ::testing::HasSubstr;

// A case whose compare pass found nothing wrong, to be spoiled by each test.
class Verdicts : public ::testing::Test {
 protected:
  Verdicts() {
    GemmProblem gemm;
    gemm.m = 64;
    gemm.n = 64;
    gemm.k = 64;
    case_.problem = gemm;
    case_.dtype = DType::kF16;
    plan_.output.name = "d";
    plan_.output.dtype = DType::kF16;
    plan_.output.dims = {1, 64, 64};
    plan_.accumulations = 64;
    plan_.accumulator_roundoff = 0x1p-24;
    plan_.zero_mean_random = true;
    result_.count = 4096;
    result_.finite_pairs = 4096;
    result_.rho = 0.8;
    result_.rho_proven = 0.7;
    result_.max_abs_expected = 30.0;
  }

  Judgement Judged() {
    Evidence evidence;
    evidence.compare = &result_;
    evidence.gating = MakeGating(case_, plan_, result_.max_abs_expected);
    evidence.guard_hits = guard_hits_;
    evidence.unwritten = result_.unwritten;
    evidence.variants = variants_;
    evidence.launches = 10;
    evidence.recheck_fault = fault_;
    evidence.changed_inputs = changed_inputs_;
    evidence.unexplained = unexplained_;
    evidence.flushed = flushed_;
    evidence.undecided = undecided_;
    evidence.received = received_;
    evidence.computed = computed_;
    evidence.efficiency = efficiency_;
    evidence.undisturbed_efficiency = undisturbed_efficiency_;
    return Judge(case_, plan_, evidence);
  }

  void ExpectOne(Verdict verdict, const std::string& reason) {
    const Judgement j = Judged();
    EXPECT_EQ(j.verdict, verdict);
    ASSERT_EQ(j.findings.size(), 1u);
    EXPECT_EQ(ReasonWord(j.findings[0].reason), reason);
  }

  bool received_ = false;
  bool computed_ = true;
  Case case_;
  Plan plan_;
  CompareResult result_;
  std::int64_t guard_hits_ = 0;
  int variants_ = 1;
  std::string fault_;
  std::vector<std::string> changed_inputs_;
  std::optional<Unexplained> unexplained_;
  bool flushed_ = false;
  std::string undecided_;
  std::optional<double> efficiency_;
  std::optional<double> undisturbed_efficiency_;
};

TEST_F(Verdicts, NothingWrongPasses) {
  const Judgement j = Judged();
  EXPECT_EQ(j.verdict, Verdict::kPassed);
  EXPECT_TRUE(j.findings.empty());
}

TEST_F(Verdicts, BeyondTheProvenBoundFailsOnAnyData) {
  result_.beyond_proven = result_.beyond_probable = 1;
  for (const bool random : {true, false}) {
    plan_.zero_mean_random = random;
    ExpectOne(Verdict::kFailed, "bound");
  }
}

// Constant data summed in sequence exceeds the probabilistic bound rightly.
TEST_F(Verdicts, BeyondTheProbabilisticBoundFailsOnlyOnZeroMeanRandomData) {
  result_.beyond_probable = 3;
  ExpectOne(Verdict::kFailed, "bound");
  plan_.zero_mean_random = false;
  ExpectOne(Verdict::kInconclusive, "suspect");
}

TEST_F(Verdicts, AWrongClassFails) {
  result_.class_mismatches = 1;
  result_.nan_count = 1;
  ExpectOne(Verdict::kFailed, "class");
}

TEST_F(Verdicts, AGuardHitFailsThoughEveryElementIsRight) {
  guard_hits_ = 64;
  ExpectOne(Verdict::kFailed, "guard");
}

TEST_F(Verdicts, AChangedInputFails) {
  changed_inputs_ = {"a"};
  ExpectOne(Verdict::kFailed, "guard");
  EXPECT_EQ(Judged().findings[0].operand, "a");
}

// Who shows the worst element elsewhere takes the headline: the message without it.
TEST_F(Verdicts, TheHeadlineIsTheMessageBeforeItsWorstElement) {
  result_.beyond_proven = 3;
  result_.worst.index = 7;
  const Finding finding = Judged().findings.at(0);
  EXPECT_THAT(finding.message.substr(finding.headline), testing::StartsWith("; worst ["));
  EXPECT_EQ(finding.blame, Blame::kKernel);
}

// Poison is NaN: the class rule must not report the same elements a second time.
TEST_F(Verdicts, UnwrittenElementsAreNamedOnce) {
  result_.unwritten = result_.class_mismatches = result_.nan_count = 512;
  result_.first_unwritten = 56;
  ExpectOne(Verdict::kFailed, "unwritten");
  EXPECT_THAT(Judged().findings[0].message, HasSubstr("512 of 4,096"));
  EXPECT_THAT(Judged().findings[0].message, HasSubstr("[0,0,56]"));
}

TEST_F(Verdicts, LaunchesThatDifferFail) {
  variants_ = 2;
  ExpectOne(Verdict::kFailed, "nondeterministic");
}

TEST_F(Verdicts, ADisagreementOfHostAndDeviceIsNotTheKernelsFault) {
  fault_ = "host and device disagree";
  result_.beyond_proven = 7;
  ExpectOne(Verdict::kError, "fault");
}

// Truncation: mean error of half a unit in the last place, which every tolerance
// lets through.
TEST_F(Verdicts, TruncationIsCaughtByItsBias) {
  result_.bias_count = 4000;
  result_.bias_sum = -0.5 * 4000;
  result_.bias_sum_squared = 4000 * (0.25 + 1.0 / 12);
  ExpectOne(Verdict::kFailed, "bias");
  case_.criterion = Criterion::kDerived;
  ExpectOne(Verdict::kFailed, "bias");
  // A tolerance that was asked for by name lets it by, and the figure is told.
  case_.criterion = Criterion::kAllClose;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
  EXPECT_LT(Judged().bias_z, -50);
  case_.criterion = Criterion::kUnspecified;
  plan_.zero_mean_random = false;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
}

// Of tensors that a user sent nothing is known, but that nothing else looks like it.
TEST_F(Verdicts, SentTensorsThatLookTruncatedDoNotPass) {
  received_ = true;
  plan_.zero_mean_random = false;
  result_.bias_count = 4000;
  for (const Criterion criterion : {Criterion::kBound, Criterion::kDerived}) {
    case_.criterion = criterion;
    result_.bias_sum = -0.5 * 4000;
    result_.bias_sum_squared = 4000 * (0.25 + 1.0 / 12);
    ExpectOne(Verdict::kInconclusive, "bias");
    result_.bias_sum = -0.3 * 4000;
    result_.bias_sum_squared = 4000 * (0.09 + 0.09);
    EXPECT_EQ(Judged().verdict, Verdict::kPassed);
  }
}

TEST_F(Verdicts, BitsOfFp64AreNotKnown) {
  case_.criterion = Criterion::kBitwise;
  case_.dtype = DType::kF64;
  plan_.output.dtype = DType::kF64;
  plan_.inputs = {Operand{}};
  plan_.inputs[0].dtype = DType::kF64;
  plan_.inputs[0].pattern.kind = PatternKind::kNormal;
  ExpectOne(Verdict::kInconclusive, "suspect");
  result_.mismatches = 5;
  ExpectOne(Verdict::kInconclusive, "suspect");
  result_.beyond_proven = 5;
  EXPECT_EQ(Judged().verdict, Verdict::kFailed) << "wrong whatever the bits";
  result_.beyond_proven = 0;
  // One's own two tensors may well be held bit by bit, and exact data have one result.
  computed_ = false;
  ExpectOne(Verdict::kFailed, "exact");
  computed_ = true;
  plan_.inputs[0].pattern.kind = PatternKind::kIntegers;
  ExpectOne(Verdict::kFailed, "exact");
  result_.mismatches = 0;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
}

// One value that most elements share has one rounding error: no sample of many.
TEST_F(Verdicts, RepeatedValuesAreNoBias) {
  result_.bias_count = 4000;
  result_.bias_sum = -0.5 * 4000;
  result_.bias_sum_squared = 0.25 * 4000;
  for (const PatternKind kind :
       {PatternKind::kSparse, PatternKind::kExtremes, PatternKind::kIntegers}) {
    plan_.inputs = {Operand{}};
    plan_.inputs[0].dtype = DType::kBF16;
    plan_.inputs[0].pattern.kind = kind;
    EXPECT_EQ(Judged().verdict, Verdict::kPassed);
  }
}

TEST_F(Verdicts, FlushedSubnormalsAreReportedAndNotFailed) {
  plan_.inputs = {Operand{}};
  plan_.inputs[0].dtype = DType::kBF16;
  plan_.inputs[0].pattern.kind = PatternKind::kDenormal;
  result_.beyond_proven = 3;
  ExpectOne(Verdict::kInconclusive, "suspect");
}

TEST_F(Verdicts, RoundToNearestShowsNoBias) {
  result_.bias_count = 4000;
  result_.bias_sum = 0.01 * 4000;
  result_.bias_sum_squared = 4000.0 / 12;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
}

TEST_F(Verdicts, APassThatProvesNothingIsNone) {
  result_.zero_count = 4096;
  ExpectOne(Verdict::kInconclusive, "zeros");
  result_.zero_count = 4090;
  ExpectOne(Verdict::kInconclusive, "zeros");
  result_.zero_count = 2000;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
  result_.count = 0;
  result_.zero_count = 0;
  EXPECT_EQ(Judged().verdict, Verdict::kInconclusive);
}

// The first element is the largest of every row, and the probes have other indices.
TEST_F(Verdicts, IndicesMayAllBeZeroBesideProbes) {
  result_.zero_count = result_.reference_zero_count = 4096;
  plan_.indices = true;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
  case_.probes = false;
  ExpectOne(Verdict::kInconclusive, "zeros");
}

// A softmax with one dominating element is zero elsewhere, and rightly so.
TEST_F(Verdicts, ASoftmaxMayBeMostlyZero) {
  SoftmaxProblem softmax;
  softmax.cols = 4096;
  case_.problem = softmax;
  result_.zero_count = 4095;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
}

// NaN fails every threshold, because only a value that is <= the limit passes.
TEST_F(Verdicts, ThresholdsRejectNaN) {
  case_.max_abs_error = 1.0;
  result_.max_abs_error = std::nan("");
  ExpectOne(Verdict::kFailed, "threshold");
}

// What a kernel wrote outside its operands may be the reference it is judged by.
TEST_F(Verdicts, AGuardHitExplainsADisagreement) {
  fault_ = "host and device disagree";
  guard_hits_ = 4096;
  ExpectOne(Verdict::kFailed, "guard");
}

// A softmax of nearly equal inputs is one value everywhere, rounded one way.
TEST_F(Verdicts, OneValueSeenManyTimesIsNoBias) {
  result_.bias_count = 4000;
  result_.bias_sum = -0.45 * 4000;
  result_.bias_sum_squared = 4000 * (0.45 * 0.45 + 0.0001);
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
}

TEST_F(Verdicts, AMissingRoofIsNoEfficiency) {
  case_.min_efficiency = 0.5;
  ExpectOne(Verdict::kInconclusive, "efficiency");
}

TEST_F(Verdicts, AnEfficiencyIsNotProvenWithoutTimes) {
  case_.min_efficiency = 0.5;
  case_.mode = Mode::kValidate;
  ExpectOne(Verdict::kInconclusive, "efficiency");
  EXPECT_NE(Judged().findings[0].message.find("was not timed"), std::string::npos);
}

// Neighbours made a kernel of 45 % one of 23 %, and it was called FAILED.
TEST_F(Verdicts, AnEfficiencyThatOnlyTheUndisturbedLaunchesReachIsNotProven) {
  case_.min_efficiency = 0.4;
  efficiency_ = 0.23;
  ExpectOne(Verdict::kFailed, "efficiency");
  undisturbed_efficiency_ = 0.39;
  ExpectOne(Verdict::kFailed, "efficiency");
  undisturbed_efficiency_ = 0.45;
  ExpectOne(Verdict::kInconclusive, "efficiency");
  EXPECT_THAT(Judged().findings[0].message,
              HasSubstr("reached 23.0 % of the roof, at least 40.0 % asked for; undisturbed "
                        "it may reach 45.0 %: too noisy to tell"));
  efficiency_ = 0.41;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
}

TEST_F(Verdicts, FailedOutranksInconclusive) {
  case_.min_efficiency = 0.5;
  result_.class_mismatches = 1;
  const Judgement j = Judged();
  EXPECT_EQ(j.verdict, Verdict::kFailed);
  EXPECT_EQ(ReasonWord(j.findings[0].reason), "class");
}

TEST(Text, GroupsThousandsAndNamesCoordinates) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(2097152), "2,097,152");
  EXPECT_EQ(Grouped(-1000), "-1,000");
  EXPECT_EQ(Coordinates(7 * 20 + 13, {2, 10, 20}), "[0,7,13]");
}

// 64 products of 1e19 and 1e19 are finite together and not one by one.
TEST_F(Verdicts, AClassThatAnOverflowInsideExplainsIsNoFailure) {
  result_.class_mismatches = 3;
  plan_.largest_intermediate = 64 * 1e38;
  ExpectOne(Verdict::kInconclusive, "suspect");
  plan_.largest_intermediate = 64 * 1e30;
  ExpectOne(Verdict::kFailed, "class");
}

// An overflow elsewhere is no excuse for an element whose own sums are small.
TEST_F(Verdicts, AClassThatNoOverflowOfItsOwnExplainsIsAFailure) {
  result_.class_mismatches = 3;
  plan_.largest_intermediate = 64 * 1e38;
  unexplained_ = Unexplained{};
  ExpectOne(Verdict::kInconclusive, "suspect");
  unexplained_->of_wrong_class = 1;
  ExpectOne(Verdict::kFailed, "class");
}

// So is what squares leave that underflow beside an eps of 0.
TEST_F(Verdicts, AClassThatAnUnderflowInsideExplainsIsNoFailure) {
  result_.class_mismatches = 3;
  plan_.largest_intermediate = 1;
  case_.problem = LayerNormProblem{.eps = 0};
  ExpectOne(Verdict::kFailed, "class");
  unexplained_ = Unexplained{};
  ExpectOne(Verdict::kInconclusive, "suspect");
  EXPECT_THAT(Judged().findings[0].message, HasSubstr("may underflow in the accumulator"));
  unexplained_->of_wrong_class = 1;
  ExpectOne(Verdict::kFailed, "class");
  EXPECT_THAT(Judged().findings[0].message, HasSubstr("1 of them where no square underflows"));
  unexplained_->of_wrong_class = 0;
  plan_.largest_intermediate = 64 * 1e38;
  EXPECT_THAT(Judged().findings[0].message, HasSubstr("sums of these inputs may overflow"));
  plan_.largest_intermediate = 1;
  case_.problem = LayerNormProblem{};
  ExpectOne(Verdict::kFailed, "class");
}

TEST_F(Verdicts, AClassThatHasNoAgreedResultIsNoFailure) {
  result_.class_mismatches = 3;
  undecided_ = "weights that are not finite, times the padding's zeros";
  ExpectOne(Verdict::kInconclusive, "suspect");
  EXPECT_THAT(Judged().findings[0].message, HasSubstr("padding's zeros, which has no agreed"));
  result_.beyond_proven = 1;
  EXPECT_EQ(Judged().verdict, Verdict::kFailed) << "what is finite is judged all the same";
}

// A norm of infinite deviation is 0, a rectified -Inf, too: finite, and far from the reference.
TEST_F(Verdicts, AnOverflowInsideMayEndFinite) {
  result_.beyond_proven = result_.beyond_probable = 3;
  result_.rho = result_.rho_proven = 1e9;
  plan_.largest_intermediate = 64 * 1e38;
  GemmProblem product;
  case_.problem = product;
  ExpectOne(Verdict::kFailed, "bound");  // a product's stays what it is
  product.activation = "relu";
  case_.problem = product;
  ExpectOne(Verdict::kInconclusive, "suspect");
  case_.problem = LayerNormProblem{};
  ExpectOne(Verdict::kInconclusive, "suspect");
  unexplained_ = Unexplained{};
  ExpectOne(Verdict::kInconclusive, "suspect");
  unexplained_->beyond_proven = 1;
  ExpectOne(Verdict::kFailed, "bound");
  unexplained_.reset();
  plan_.largest_intermediate = 1e30;
  ExpectOne(Verdict::kFailed, "bound");
}

// Where a kernel may flush, everything below the smallest normal number is alike.
TEST_F(Verdicts, ResultsThatMayAllBeFlushedProveNothing) {
  flushed_ = true;
  result_.max_abs_expected = Info(plan_.output.dtype).min_normal;
  ExpectOne(Verdict::kInconclusive, "suspect");
  result_.max_abs_expected = 2 * Info(plan_.output.dtype).min_normal;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed);
  flushed_ = false;
  result_.max_abs_expected = Info(plan_.output.dtype).min_normal;
  EXPECT_EQ(Judged().verdict, Verdict::kPassed) << "right without any being flushed";
  case_.flushes_subnormals = true;
  ExpectOne(Verdict::kInconclusive, "suspect");  // the bound has room for it from the beginning
}

TEST_F(Verdicts, ZerosThatTheReferenceDoesNotShareAreSaidToBeSo) {
  case_.criterion = Criterion::kAllClose;
  case_.atol = 1e30;
  case_.rtol = 0;
  result_.zero_count = result_.count;
  const Judgement j = Judged();
  EXPECT_EQ(j.verdict, Verdict::kInconclusive);
  ASSERT_EQ(j.findings.size(), 1u);
  EXPECT_THAT(j.findings[0].message, HasSubstr("the reference is not"));
}

// ---- outputs that are all zero

TEST(Zeros, ProveNothing) { EXPECT_EQ(AllZeros().reason, Reason::kZeros); }

// Of indices 0 is a result as any other, if a probe has shown that the kernel can give others.
TEST(Zeros, OfIndicesNeedAProbeThatPassed) {
  Plan plan;
  plan.indices = true;
  CaseOutcome outcome;
  outcome.verdict = Verdict::kPassed;
  outcome.compare.emplace();
  outcome.compare->count = outcome.compare->zero_count = 4;
  EXPECT_FALSE(ProbesShow(plan, outcome));
  outcome.probes.resize(2);
  outcome.probes[0].verdict = Verdict::kFailed;
  outcome.probes[1].verdict = Verdict::kSkipped;
  EXPECT_FALSE(ProbesShow(plan, outcome));
  outcome.probes[1].verdict = Verdict::kPassed;
  EXPECT_TRUE(ProbesShow(plan, outcome));
  outcome.probes.clear();
  outcome.compare->zero_count = 3;
  EXPECT_TRUE(ProbesShow(plan, outcome)) << "one index is another";
  outcome.compare->zero_count = 4;
  outcome.verdict = Verdict::kFailed;
  EXPECT_TRUE(ProbesShow(plan, outcome)) << "it is judged";
  outcome.verdict = Verdict::kPassed;
  plan.indices = false;
  EXPECT_TRUE(ProbesShow(plan, outcome)) << "numbers have a rule of their own";
  plan.indices = true;
  outcome.compare.reset();
  EXPECT_TRUE(ProbesShow(plan, outcome)) << "nothing was compared";
}

}  // namespace
}  // namespace assay
