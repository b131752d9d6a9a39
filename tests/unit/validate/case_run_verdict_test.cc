// What a case is held against, which of its launches counts, and what its verdict rests on.
#include "kernels/validate/case_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/numerics/change.h"
#include "kernels/ops/own_reference.h"
#include "kernels/text/cat.h"
#include "tests/unit/validate/case_run_fixture.h"

namespace assay {
namespace {

using testing::CaseRunTest;
using testing::CopyOf;
using ::testing::ElementsAre;
using testing::First;
using testing::g_launches;
using testing::g_said;
using testing::GemmCase;
using ::testing::HasSubstr;
using testing::OwnDevice;

// ---- what the output is held against

TEST_F(CaseRunTest, ADeviceThatIsLostInTheReferenceIsAnErrorOfThatStep) {
  struct Observer : PhaseObserver {
    void Enter(Phase phase) override { device->lost = phase == Phase::kReference; }
    OwnDevice* device = nullptr;
  } observer;
  observer.device = &device_;
  const Case c = Gemm();
  const CaseOutcome outcome = CaseRunner(device_, Kernels(c), nullptr).Run(c, observer);
  EXPECT_EQ(outcome.verdict, Verdict::kError);
  EXPECT_EQ(First(outcome), "fault: reference: lost");
}

TEST_F(CaseRunTest, ScoresAreToldWhereThereAreSome) {
  Case c = testing::AttentionCase(DType::kF32, 1, 4, 4, /*causal=*/false);
  c.provider = "saying";
  c.seed = 7;
  c.probes = false;
  c.pattern = "uniform:-0.5:0.5";
  const CaseOutcome small = Run(c);
  ASSERT_TRUE(small.max_abs_score.has_value());
  EXPECT_GT(*small.max_abs_score, 0);
  EXPECT_LT(*small.max_abs_score, 1);
  EXPECT_FALSE(Run(Gemm()).max_abs_score.has_value());
}

// On data of one sign the sure bound of long sums is several times the probable one.
TEST_F(CaseRunTest, TheSureBoundIsTheOneThatIsProven) {
  Case c = Gemm();
  std::get<GemmProblem>(c.problem) = {.m = 4, .n = 4, .k = 4096};
  c.pattern = "all-positive";
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    values[3] *= 1 + 1000 * 0x1p-24;
  };
  const CaseOutcome outcome = Run(c);
  ASSERT_TRUE(outcome.compare.has_value());
  EXPECT_EQ(outcome.compare->beyond_probable, 1);
  EXPECT_EQ(outcome.compare->beyond_proven, 0);
  EXPECT_NE(outcome.verdict, Verdict::kFailed);
}

TEST_F(CaseRunTest, ACopyIsHeldToTheBit) {
  g_said.spoil = [](float* values, int) {
    for (int i = 0; i < 64; ++i) {
      if (values[i] == 1) values[i] = std::nextafter(1.0F, 0.0F);
    }
  };
  Case c = CopyOf(64);
  c.pattern = "integers:1:2";
  EXPECT_EQ(Run(c).verdict, Verdict::kFailed);
}

// ---- subnormal results that a kernel gives as 0

class Flushing : public CaseRunTest {
 protected:
  Flushing() {
    testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
      for (double& v : values) v = std::abs(v) < 0x1p-126 ? 0 : v;
    };
  }
  static Case Sums(std::string pattern = "denormal/uniform:-0.1:0.1") {
    Case c = GemmCase(DType::kF32, 8, 8, 4);
    c.provider = "saying";
    c.pattern = std::move(pattern);
    c.probes = false;
    c.seed = 7;
    return c;
  }
};

std::string All(const CaseOutcome& outcome) {
  std::string all;
  for (const Finding& f : outcome.findings) Append(&all, f.message, "\n");
  return all;
}

TEST_F(Flushing, OfSubnormalInputsIsNoFailureAndNoPass) {
  const CaseOutcome outcome = Run(Sums());
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive) << First(outcome);
  EXPECT_THAT(All(outcome), HasSubstr("every result is at most 1.18e-38"));
  EXPECT_EQ(outcome.compare->beyond_probable, 0);
}

TEST_F(Flushing, OfASingleElementIsSeen) {
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) { values[3] = 0; };
  const CaseOutcome outcome = Run(Sums());
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive) << First(outcome);
  EXPECT_THAT(All(outcome), HasSubstr("every result is at most"));
}

TEST_F(Flushing, IsNotSaidOfAKernelThatKeepsThem) {
  testing::TheDistortion() = [](std::vector<double>&, const Plan&) {};
  const CaseOutcome outcome = Run(Sums());
  EXPECT_THAT(All(outcome), ::testing::Not(HasSubstr("every result is at most")));
  EXPECT_LT(outcome.compare->rho, 1);
}

TEST_F(Flushing, OfOtherInputsIsAFailureUnlessItIsDeclared) {
  Case c = Sums("uniform:1e-20:2e-20");
  EXPECT_EQ(Run(c).verdict, Verdict::kFailed);
  c.flushes_subnormals = true;
  const CaseOutcome declared = Run(c);
  EXPECT_EQ(declared.verdict, Verdict::kInconclusive) << First(declared);
  EXPECT_THAT(All(declared), HasSubstr("every result is at most"));
}

// Which of two comparisons finds it.
TEST_F(Flushing, IsAllowedForEveryCriterionThatIsComparedBeside) {
  Case c = Sums();
  c.all_criteria = true;
  for (const Criterion criterion : {Criterion::kBound, Criterion::kDerived}) {
    c.criterion = criterion;
    const CaseOutcome outcome = Run(c);
    ASSERT_FALSE(outcome.criteria.empty());
    EXPECT_EQ(outcome.criteria[0].criterion, Criterion::kBound);
    EXPECT_TRUE(outcome.criteria[0].passed) << First(outcome);
  }
}

// What is shown is the launch that is doubted, not the later one that is in order.
TEST_F(Flushing, OnceIsShownAsIfItWereAlways) {
  device_.seconds = 0.001;
  const auto flush = testing::TheDistortion();
  const CaseOutcome always = Run(Sums());
  testing::TheDistortion() = [flush](std::vector<double>& values, const Plan& plan) {
    if (g_launches == 1) flush(values, plan);
  };
  const CaseOutcome once = Run(Sums());
  EXPECT_EQ(once.verdict, Verdict::kInconclusive);
  EXPECT_EQ(First(once), First(always));
  EXPECT_EQ(once.compare->rho, always.compare->rho);
}

// ---- which of two launches counts

// By the case's criterion, of which many others that it lets by are no part.
TEST_F(CaseRunTest, AWrongLaunchIsFoundBehindOneThatIsOnlyCoarse) {
  Case c = Gemm();
  c.criterion = Criterion::kAllClose;
  c.atol = 0.5;
  device_.seconds = 0.001;
  for (const bool nan : {false, true}) {
    testing::TheDistortion() = [nan](std::vector<double>& values, const Plan&) {
      if (g_launches == 1) {
        for (double& v : values) v += 0.25;
      } else {
        values[3] += nan ? NAN : 1.0;
      }
    };
    const CaseOutcome outcome = Run(c);
    EXPECT_GT(g_launches, 1);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << First(outcome);
    EXPECT_EQ(outcome.compare->mismatches, 1);
  }
}

TEST_F(CaseRunTest, ALimitIsAskedOfEveryLaunch) {
  Case c = Gemm();
  c.criterion = Criterion::kAllClose;
  c.atol = 0.5;
  c.max_abs_error = 0.3;
  device_.seconds = 0.001;
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    for (double& v : values) v += g_launches == 1 ? 0.25 : 0;
    if (g_launches > 1) values[3] += 0.4;
  };
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(First(outcome), HasSubstr("threshold: max abs error is 0.4"));
  EXPECT_NEAR(outcome.compare->max_abs_error, 0.4, 1e-5);
}

TEST_F(CaseRunTest, OfTwoThatPassTheWorseIsShownAndOfEqualOnesTheLast) {
  Case c = Gemm();
  c.criterion = Criterion::kAllClose;
  c.atol = 0.5;
  device_.seconds = 0.001;
  const auto run = [&](double first, double later) {
    testing::TheDistortion() = [=](std::vector<double>& values, const Plan&) {
      values[3] += g_launches == 1 ? first : later;
    };
    return Run(c).compare.value();
  };
  EXPECT_EQ(run(0.25, 0).beyond_proven, 1);
  EXPECT_EQ(run(0, 0.25).beyond_proven, 1);
  EXPECT_EQ(run(0.25, 0.125).digest_raw[0], run(0.125, 0.125).digest_raw[0]);
}

TEST_F(CaseRunTest, WhereLaunchesMustAgreeALaterOneMustToo) {
  Case c = Gemm();
  c.repeats = 2;
  device_.seconds = 0.001;
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    if (g_launches > 2) values[3] *= 1 + 0x1p-23;
  };
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(First(outcome), "nondeterministic: 2 different outputs in 2 launches on the same data");
  c.repeats = 1;
  EXPECT_EQ(Run(c).verdict, Verdict::kPassed) << "nothing was asked for";
}

// Integers are launched on a second poison.
TEST_F(CaseRunTest, TheLaunchOnTheOtherPoisonIsJudgedAndMustAgree) {
  Case c = Gemm(DType::kI8);
  testing::TheDistortion() = [&c](std::vector<double>& values, const Plan&) {
    if (g_launches == std::max(1, c.repeats) + 1) values[3] += 1;
  };
  EXPECT_EQ(Run(c).verdict, Verdict::kFailed);
  EXPECT_EQ(g_launches, 2);
  c.repeats = 2;
  EXPECT_THAT(First(Run(c)), HasSubstr("nondeterministic: 2 different outputs in 2 launches"));
}

// A launch that writes outside its output may have spoiled the reference.
TEST_F(CaseRunTest, AfterDamageTheReferenceIsMadeAgain) {
  device_.seconds = 0.001;
  g_said.trusted = true;
  g_said.spoil = [&](float* values, int n) {
    if (n == 1) return;
    values[3] += 1;
    reinterpret_cast<unsigned char*>(values)[64 * sizeof(float)] = 1;
    device_.reference[9] += 1;
  };
  const CaseOutcome outcome = Run(CopyOf(64));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.guard_hits, 1);
  EXPECT_EQ(outcome.compare->mismatches, 1);
}

TEST_F(CaseRunTest, AReferenceThatTheHostDisagreesWithIsNoFaultOfTheKernel) {
  struct Observer : PhaseObserver {
    void Enter(Phase phase) override {
      if (phase == Phase::kRecheck) std::fill_n(device->reference, 64, 1e6);
    }
    OwnDevice* device = nullptr;
  } observer;
  observer.device = &device_;
  const Case c = Gemm();
  const CaseOutcome outcome = CaseRunner(device_, Kernels(c), nullptr).Run(c, observer);
  EXPECT_EQ(outcome.verdict, Verdict::kError);
  EXPECT_THAT(First(outcome), HasSubstr("host and device disagree at "));
}

// Gives the inputs back, but for one element.
class NaNInOnePlace : public OwnReference {
 public:
  absl::StatusOr<bool> Compute(const Case&, const Plan&, std::span<const TensorView> inputs,
                               double* value, double*) override {
    for (std::int64_t i = 0; i < inputs[0].count(); ++i) {
      value_.push_back(i == 3 ? NAN : static_cast<double>(inputs[0].as<float>()[i]));
    }
    std::ranges::copy(value_, value);
    return false;
  }
  void At(const Plan&, const HostInputs&, std::span<const std::int64_t> indices, double* value,
          double*) override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      value[i] = value_[static_cast<std::size_t>(indices[i])];
    }
  }
  bool gave_magnitudes() const override { return false; }
  double largest() const override { return 1; }
  double ShareWithin(const std::function<double(double)>&) const override { return 0; }

 private:
  std::vector<double> value_;
};

// Of an operator of the caller's own either may be wrong where no input is NaN.
TEST_F(CaseRunTest, ANumberWhereTheCallersReferenceIsNaNIsNoFaultOfTheKernelAlone) {
  NaNInOnePlace reference;
  Case c = Gemm();
  c.problem = CustomProblem{.input = {"x=5x9"}, .out = {"y=5x9"}, .scalar = {}};
  c.reference = "external";
  c.accumulations = 1;
  c.own_reference = &reference;
  g_said.copies = true;
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kError);
  EXPECT_THAT(First(outcome), HasSubstr("the reference is NaN at element 3 of the output"));
}

// ---- criteria with tolerances

TEST_F(CaseRunTest, TolerancesGateAndAreTold) {
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    for (double& v : values) v *= 1.01;
  };
  Case c = Gemm();
  c.criterion = Criterion::kAllClose;
  c.rtol = 0.02;
  const CaseOutcome relative = Run(c);
  EXPECT_NE(relative.verdict, Verdict::kFailed) << First(relative);
  EXPECT_EQ(relative.rtol, 0.02);
  EXPECT_EQ(relative.atol, 0.0);
  c.rtol = 0.001;
  EXPECT_EQ(Run(c).verdict, Verdict::kFailed);
  const CaseOutcome bound = Run(Gemm());
  EXPECT_FALSE(bound.atol.has_value());
  EXPECT_FALSE(bound.rtol.has_value());
}

// By the largest magnitude of the result, which is known after a first comparison.
TEST_F(CaseRunTest, TheDerivedToleranceIsThatOfTheResultsMagnitude) {
  Case c = Gemm();
  c.criterion = Criterion::kDerived;
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << First(outcome);
  ASSERT_TRUE(outcome.compare.has_value());
  const double largest = outcome.compare->max_abs_expected;
  EXPECT_EQ(outcome.atol, MakeGating(c, *outcome.plan, largest).atol);
  EXPECT_GT(outcome.atol, MakeGating(c, *outcome.plan, 0).atol);
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) { values[3] += 1; };
  EXPECT_EQ(Run(c).verdict, Verdict::kFailed);
}

TEST_F(CaseRunTest, TheBiasOfTheRoundingIsTold) {
  Case c = Gemm(DType::kBF16);
  std::get<GemmProblem>(c.problem) = {.m = 64, .n = 64, .k = 8};
  EXPECT_TRUE(Run(c).bias_z.has_value());
  EXPECT_FALSE(Run(Gemm()).bias_z.has_value()) << "too few elements";
}

// Two digests that share a half are two.
TEST_F(CaseRunTest, TheSecondOfTwoLaunchesMustAgree) {
  Case c = Gemm();
  c.repeats = 2;
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    if (g_launches == 2) values[3] *= 1 + 0x1p-23;
  };
  for (const int half : {0, 1}) {
    device_.as_digest = [half](TensorDigest d) {
      d.raw[half] = 0;
      return d;
    };
    const CaseOutcome outcome = Run(c);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_THAT(First(outcome), HasSubstr(": launch 2 differs from the first in 1 element"));
    EXPECT_EQ(outcome.odd_launches, 1);
    EXPECT_EQ(outcome.deterministic, false);
  }
}

// ---- checksums

TEST_F(CaseRunTest, ChecksumsHaveTheirFiguresAndTheOutputsDigests) {
  Case c = Gemm();
  std::get<GemmProblem>(c.problem) = {.m = 32, .n = 32, .k = 32};
  device_.seconds = 0.001;
  const CaseOutcome full = Run(c);
  c.verify = Verification::kChecksum;
  c.all_criteria = true;
  const CaseOutcome screened = Run(c);
  EXPECT_EQ(screened.verdict, Verdict::kPassed) << First(screened);
  EXPECT_FALSE(screened.deterministic.has_value()) << "all launches are alike";
  ASSERT_TRUE(screened.checksum.has_value());
  EXPECT_EQ(screened.checksum->probes, kDefaultChecksumProbes);
  EXPECT_FALSE(full.checksum.has_value());
  EXPECT_TRUE(screened.criteria.empty()) << "without a reference";
  for (const int i : {0, 1}) {
    EXPECT_EQ(screened.compare->digest_raw[i], full.compare->digest_raw[i]);
    EXPECT_EQ(screened.compare->digest_canonical[i], full.compare->digest_canonical[i]);
  }
}

// ---- what the verdict rests on

TEST_F(CaseRunTest, UnitsInTheLastPlaceAreReportedWhereTheyWereAskedFor) {
  EXPECT_FALSE(Run(Gemm()).reports_ulp);
  Case c = Gemm();
  c.max_ulp = 8;
  EXPECT_TRUE(Run(c).reports_ulp);
  c = Gemm();
  for (const Criterion criterion : {Criterion::kUlp, Criterion::kBitwise}) {
    c.criterion = criterion;
    EXPECT_TRUE(Run(c).reports_ulp);
  }
  c.criterion = Criterion::kAllClose;
  EXPECT_FALSE(Run(c).reports_ulp);
}

TEST_F(CaseRunTest, CriteriaAreComparedOnlyWhereThatWasAskedFor) {
  EXPECT_TRUE(Run(Gemm()).criteria.empty());
  Case c = Gemm();
  c.all_criteria = true;
  EXPECT_FALSE(Run(c).criteria.empty());
}

TEST_F(CaseRunTest, AnIntegerThatIsLeftUnwrittenIsFound) {
  g_said.leaves = true;
  const CaseOutcome outcome = Run(Gemm(DType::kI8));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.findings,
              ::testing::Contains(::testing::Field(&Finding::reason, Reason::kUnwritten)));
}

TEST_F(CaseRunTest, AnInputThatTheKernelChangedIsNamed) {
  g_said.changes = true;
  const CaseOutcome outcome = Run(CopyOf(64));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(outcome.findings[0].operand, "x");
}

// Products of subnormal numbers are nothing.
TEST_F(CaseRunTest, DataWhoseBoundSaysNothingAreNoPass) {
  Case c = Gemm();
  c.pattern = "denormal";
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  EXPECT_EQ(First(outcome),
            "suspect: the error bound is as large as the results, for 100.0 % of them by "
            "magnitude: being within it proves little");
}

// ---- where the magnitudes of fp64 sums overflow, and their bounds with them

class BeyondFp64 : public CaseRunTest {
 protected:
  // Sums of 32 products of either sign, times alpha each up to 3.6e307.
  static Case Sums() {
    Case c = GemmCase(DType::kF64, 8, 8, 32);
    c.provider = "saying";
    c.pattern = "uniform:-1e38:1e38";
    std::get<GemmProblem>(c.problem).alpha = 3.6e231;
    c.probes = false;
    c.seed = 7;
    return c;
  }
};

TEST_F(BeyondFp64, ElementsWithoutABoundAreCountedAmongThoseThatTheHostLookedAt) {
  const CaseOutcome outcome = Run(Sums());
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive) << First(outcome);
  EXPECT_THAT(All(outcome), HasSubstr(" of 64 sampled elements the terms overflow FP64"));
}

// Which of both is right is not known, and so the case's own device is not accused.
TEST_F(BeyondFp64, AReferenceThatOverflowedOnTheDeviceAloneIsADoubt) {
  struct Observer : PhaseObserver {
    void Enter(Phase phase) override {
      if (phase == Phase::kRecheck) device->reference[0] = std::numeric_limits<double>::infinity();
    }
    OwnDevice* device = nullptr;
  } observer;
  observer.device = &device_;
  const Case c = Sums();
  const CaseOutcome outcome = CaseRunner(device_, Kernels(c), nullptr).Run(c, observer);
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive) << First(outcome);
  EXPECT_THAT(All(outcome), HasSubstr("host and device disagree at [0,0]: "));
  EXPECT_THAT(All(outcome), HasSubstr("sums of these inputs may overflow FP64, which both use"));
}

// ---- sums of 8-bit floats in code that nobody knows

class Narrow : public CaseRunTest {
 protected:
  Narrow() {
    g_said.reaches_device_memory = true;
    device_.seconds = 1;
  }
  static Case Sums(DType dtype) {
    Case c = GemmCase(dtype, 4, 4, 512);
    c.provider = "saying";
    c.out_dtype = DType::kF32;
    c.pattern = "all-positive";
    c.probes = false;
    c.seed = 1;  // what the kernel takes for its data, on every draw
    c.slices = {"bound[0:1,0:1]"};
    return c;
  }
  CaseOutcome RunOff(const Case& c, double error) {
    testing::TheDistortion() = [error](std::vector<double>& values, const Plan&) {
      values[3] *= 1 + error;
    };
    return Run(c);
  }
};

TEST_F(Narrow, WhatFourteenBitsExplainIsADoubtAndNoFailure) {
  const Case c = Sums(DType::kE4M3FN);
  const CaseOutcome narrow = RunOff(c, 0x1p-12);
  EXPECT_EQ(narrow.verdict, Verdict::kInconclusive) << First(narrow);
  g_said.reaches_device_memory = false;
  const CaseOutcome plain = RunOff(c, 0x1p-12);
  EXPECT_EQ(plain.verdict, Verdict::kFailed) << "of known code it is known what it sums in";
  // What is shown is what the case is judged by.
  EXPECT_EQ(narrow.compare->beyond_proven, 1);
  EXPECT_EQ(narrow.compare->rho_proven, plain.compare->rho_proven);
  EXPECT_EQ(narrow.plan->accumulator.roundoff, plain.plan->accumulator.roundoff);
  ASSERT_EQ(narrow.slices.size(), 1u);
  EXPECT_EQ(narrow.slices[0].values, plain.slices[0].values);
}

// Where the kernel says that it flushes, so does the comparison that is shown.
TEST_F(Narrow, WhatMayBeFlushedStaysSo) {
  g_said.flushes = true;
  Case c = Sums(DType::kE4M3FN);
  c.out_dtype = DType::kF16;
  const CaseOutcome narrow = RunOff(c, 0x1.8p-10);
  EXPECT_EQ(narrow.verdict, Verdict::kInconclusive) << First(narrow);
  g_said.reaches_device_memory = false;
  const CaseOutcome plain = RunOff(c, 0x1.8p-10);
  EXPECT_EQ(plain.verdict, Verdict::kFailed) << First(plain);
  ASSERT_EQ(narrow.slices.size(), 1u);
  EXPECT_EQ(narrow.slices[0].values, plain.slices[0].values);
}

TEST_F(Narrow, WhatTheyDoNotExplainFails) {
  EXPECT_EQ(RunOff(Sums(DType::kE4M3FN), 0.5).verdict, Verdict::kFailed);
  EXPECT_EQ(RunOff(Sums(DType::kE4M3FN), NAN).verdict, Verdict::kFailed);
  const CaseOutcome wide = RunOff(Sums(DType::kBF16), 0x1p-12);
  EXPECT_EQ(wide.verdict, Verdict::kFailed) << "no hardware sums these so";
  EXPECT_EQ(wide.findings.at(0).reason, Reason::kBound);
  Case c = Sums(DType::kE4M3FN);
  c.max_abs_error = 0x1p-30;
  c.criterion = Criterion::kAllClose;
  c.atol = 1;
  EXPECT_EQ(RunOff(c, 0x1p-12).verdict, Verdict::kFailed) << "a limit that was asked for";
}

// Without a reference no wider bound is known.
TEST_F(Narrow, WhatChecksumsFindFails) {
  Case c = Sums(DType::kE4M3FN);
  c.verify = Verification::kChecksum;
  c.slices.clear();
  const CaseOutcome outcome = RunOff(c, 0.5);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed) << First(outcome);
  EXPECT_EQ(outcome.findings.at(0).reason, Reason::kBound);
}

// The results of all draws of these data are so alike that 14 bits would explain another's.
TEST_F(Narrow, TheResultOfOtherInputsFails) {
  g_said.trusted = false;
  Case c = Sums(DType::kE4M3FN);
  c.pattern = "uniform:0.95:1.05";
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed) << All(outcome);
  EXPECT_THAT(First(outcome), HasSubstr("stale: a launch returned the result of other inputs"));
}

// ---- efficiency, and who else uses the device

// A thousand operations a second; of memory nothing is known.
class Thousand : public Ceilings {
 public:
  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    if (kind != CeilingKind::kFma) return std::nullopt;
    return Ceiling{.kind = kind, .dtype = dtype, .per_second = 1000};
  }
};

class Efficiency : public CaseRunTest {
 protected:
  // 1024 operations.
  Case Asked(Mode mode, double least = 0.5) {
    Case c = Gemm();
    c.mode = mode;
    c.min_efficiency = least;
    return c;
  }
  CaseOutcome RunOnce(const Case& c, double seconds, ConditionsReader* probe = nullptr) {
    device_.seconds = seconds;
    Thousand ceilings;
    return Run(c, &ceilings, probe);
  }
};

TEST_F(Efficiency, IsAskedOfTheTimedLaunches) {
  for (const Mode mode : {Mode::kBenchmark, Mode::kBoth}) {
    const CaseOutcome fast = RunOnce(Asked(mode), 1.2);
    EXPECT_EQ(fast.verdict, Verdict::kPassed) << First(fast);
    const CaseOutcome slow = RunOnce(Asked(mode), 12);
    EXPECT_EQ(slow.verdict, Verdict::kFailed) << First(slow);
    EXPECT_THAT(First(slow), HasSubstr("efficiency: reached "));
  }
  const CaseOutcome untimed = RunOnce(Asked(Mode::kValidate), 1.2);
  EXPECT_EQ(untimed.verdict, Verdict::kInconclusive);
  EXPECT_THAT(First(untimed), HasSubstr("an efficiency was asked for and the case was not timed"));
  EXPECT_EQ(RunOnce(Asked(Mode::kUnspecified), 1.2).verdict, Verdict::kPassed);
}

// Memory alone, of which a cache holds the whole case.
TEST_F(Efficiency, OfWhatACacheHoldsIsUnknown) {
  class Cached : public Ceilings {
   public:
    std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
      if (kind == CeilingKind::kFma)
        return Ceiling{.kind = kind, .dtype = dtype, .per_second = 1e9};
      if (kind != CeilingKind::kCopy) return std::nullopt;
      return Ceiling{.kind = kind, .per_second = 1};
    }
    std::int64_t CacheBytes() const override { return 1 << 20; }
  } ceilings;
  Case c = Asked(Mode::kBenchmark);
  const CaseOutcome cached = Run(c, &ceilings);
  EXPECT_EQ(cached.verdict, Verdict::kInconclusive);
  EXPECT_THAT(First(cached), HasSubstr("the data fit the cache"));
  const CaseOutcome unknown = Run(c);
  EXPECT_EQ(unknown.verdict, Verdict::kInconclusive);
  EXPECT_THAT(First(unknown), HasSubstr("no roof could be measured"));
}

// Every other sample takes ten times as long.
TEST_F(Efficiency, OfANoisyTimingMayBeEnoughUndisturbed) {
  g_said.launch = [&](int n) {
    device_.seconds = n % 2 == 0 ? 1.2 : 12;
    return absl::OkStatus();
  };
  const CaseOutcome outcome = RunOnce(Asked(Mode::kBenchmark), 12);
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_TRUE(outcome.bench->noisy);
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive) << First(outcome);
  EXPECT_THAT(First(outcome), HasSubstr("undisturbed it may reach "));
}

class Others : public ConditionsReader {
 public:
  explicit Others(std::int64_t bytes) : bytes_(bytes) {}
  ConditionsReading Read() override {
    ConditionsReading reading;
    if (bytes_ >= 0) reading.others_bytes = bytes_;
    return reading;
  }

 private:
  const std::int64_t bytes_;
};

TEST_F(Efficiency, ThatIsLowBesideOthersIsNoFailure) {
  Others nobody(0), unknown(-1), one_byte(1);
  const Case c = Asked(Mode::kBenchmark);
  EXPECT_EQ(RunOnce(c, 12, &nobody).verdict, Verdict::kFailed);
  EXPECT_EQ(RunOnce(c, 12, &unknown).verdict, Verdict::kFailed);
  const CaseOutcome beside = RunOnce(c, 12, &one_byte);
  EXPECT_EQ(beside.verdict, Verdict::kInconclusive);
  EXPECT_EQ(First(beside), "noisy: other processes held 1 MiB of the device while it was timed");
  EXPECT_EQ(beside.findings.back().reason, Reason::kEfficiency);
  EXPECT_EQ(RunOnce(c, 1.2, &one_byte).verdict, Verdict::kInconclusive);
  EXPECT_EQ(RunOnce(c, 1.2, &nobody).verdict, Verdict::kPassed);
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) { values[3] += 1; };
  for (const double seconds : {1.2, 12.0}) {
    EXPECT_EQ(RunOnce(c, seconds, &one_byte).verdict, Verdict::kFailed) << "it is wrong";
  }
}

TEST_F(Efficiency, OfADeviceWithoutAClockIsADoubtAndAWrongResultAFailure) {
  Case c = Gemm();
  c.mode = Mode::kBenchmark;
  const CaseOutcome stopped = RunOnce(c, 0);
  EXPECT_EQ(stopped.verdict, Verdict::kInconclusive);
  EXPECT_THAT(First(stopped), HasSubstr("noisy: a time was asked for and the device's clock"));
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) { values[3] += 1; };
  EXPECT_EQ(RunOnce(c, 0).verdict, Verdict::kFailed);
}

}  // namespace
}  // namespace assay
