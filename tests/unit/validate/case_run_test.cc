// A case's way through its stages: what it may share, what it says of itself, how it ends.
#include "kernels/validate/case_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/numerics/change.h"
#include "kernels/text/cat.h"
#include "tests/unit/validate/case_run_fixture.h"

namespace assay {
namespace {

using testing::CaseRunTest;
using testing::CopyOf;
using ::testing::ElementsAre;
using testing::First;
using testing::g_launches;
using testing::g_made;
using testing::g_said;
using testing::GemmCase;
using ::testing::HasSubstr;
using testing::Made;

// ---- beside others

TEST_F(CaseRunTest, OnlyASmallCaseOfOneLaunchAndOneComparisonMayShare) {
  EXPECT_TRUE(MayShare(Gemm()));
  Case c = Gemm();
  c.kernel_file = "/tmp/users.so";
  EXPECT_FALSE(MayShare(c));
  for (const Mode mode : {Mode::kBenchmark, Mode::kBoth}) {
    c = Gemm();
    c.mode = mode;
    EXPECT_FALSE(MayShare(c));
  }
  c = Gemm();
  c.repeats = 2;
  EXPECT_FALSE(MayShare(c));
  c.repeats = 1;
  EXPECT_TRUE(MayShare(c));
  c.verify = Verification::kChecksum;
  EXPECT_FALSE(MayShare(c));
  c = Gemm();
  c.criterion = Criterion::kDerived;
  EXPECT_FALSE(MayShare(c));
  EXPECT_FALSE(MayShare(Gemm(DType::kI8))) << "it is launched on a second poison";
}

TEST_F(CaseRunTest, WhatMaySharesHasAMebibyteAtMostAndSixteenKibiElements) {
  EXPECT_TRUE(MayShare(CopyOf(1 << 14)));
  EXPECT_FALSE(MayShare(CopyOf((1 << 14) + 1)));
  Case c;
  c.dtype = DType::kF32;
  c.provider = "saying";
  // 1024 rows of 255 elements and a result: 2^20 bytes.
  c.problem = ReduceProblem{.extents = {1024, 255}, .kind = "sum"};
  EXPECT_TRUE(MayShare(c));
  c.problem = ReduceProblem{.extents = {1024, 256}, .kind = "sum"};
  EXPECT_FALSE(MayShare(c));
}

// ---- which launches count

// The first launch pays for what a library puts off.
TEST_F(CaseRunTest, AShortLaunchIsTimedOnceMoreWithoutTheFirst) {
  struct Row {
    double first;
    int launches;
    double median;
  };
  for (const Row& row :
       {Row{0.0099, 3, 0.001}, Row{0.01, 1, 0.01}, Row{0.0101, 1, 0.0101}, Row{0.0051, 3, 0.001}}) {
    g_launches = 0;
    device_.seconds = row.first;
    g_said.launch = [&](int n) {
      if (n > 1) device_.seconds = 0.001;
      return absl::OkStatus();
    };
    const CaseOutcome outcome = Run(Gemm());
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << First(outcome);
    EXPECT_EQ(g_launches, row.launches) << row.first;
    ASSERT_TRUE(outcome.bench.has_value());
    EXPECT_EQ(outcome.bench->median_seconds, row.median);
  }
}

// ---- what the outcome says

TEST_F(CaseRunTest, TheOutcomeNamesTheSeedAndTheKernelsLibraries) {
  g_said.libraries = {"/lib/libone.so", "/lib/libtwo.so"};
  const CaseOutcome outcome = Run(Gemm());
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  EXPECT_EQ(outcome.seed, 7u);
  EXPECT_EQ(outcome.loaded_libraries, g_said.libraries);
  Case unseeded = Gemm();
  unseeded.seed.reset();
  EXPECT_EQ(Run(unseeded).seed, 1u);
}

TEST_F(CaseRunTest, TheObserverIsToldOfEveryPhaseAndItsTimeIsThere) {
  struct : PhaseObserver {
    std::vector<std::string> phases;
    void Enter(Phase phase) override { phases.emplace_back(PhaseName(phase)); }
  } observer;
  const Case c = Gemm();
  const CaseOutcome outcome = CaseRunner(device_, Kernels(c), nullptr).Run(c, observer);
  EXPECT_THAT(observer.phases,
              ElementsAre("plan", "prepare", "fill", "fill", "kernel", "guards", "guards",
                          "reference", "compare", "recheck", "compare", "idle"));
  std::vector<std::string> timed;
  for (const PhaseTime& t : outcome.phases) timed.emplace_back(t.phase);
  EXPECT_THAT(timed, ElementsAre("plan", "prepare", "fill", "kernel", "guards", "reference",
                                 "compare", "recheck"));
  EXPECT_EQ(outcome.last_phase, Phase::kCompare);
}

TEST_F(CaseRunTest, TheLastPhaseIsTheOneThatACaseCameTo) {
  Case c = Gemm();
  c.provider = "nobody";
  EXPECT_EQ(Run(c).last_phase, Phase::kPrepare);
  g_said.launch = [](int) { return absl::InternalError("no"); };
  EXPECT_EQ(Run(Gemm()).last_phase, Phase::kGuards);
}

// What a kernel declares is never silent.
TEST_F(CaseRunTest, TheImplementationNamesWhatIsDeclared) {
  g_said.implementation = "own";
  EXPECT_EQ(Run(Gemm()).implementation, "own");
  g_said.implementation = "";
  g_said.accumulator = {.roundoff = 0x1p-14, .block = 32};
  EXPECT_EQ(Run(Gemm(DType::kE4M3FN)).implementation, "sums 32 products to a relative 2^-14");
  g_said.accumulator = {};
  Case c = Gemm();
  c.flushes_subnormals = true;
  EXPECT_EQ(Run(c).implementation, "gives 0 for subnormal results");
  c.intermediate_dtype = DType::kF16;
  g_said.implementation = "own";
  EXPECT_EQ(Run(c).implementation,
            "own, holds intermediate results in fp16, gives 0 for subnormal results");
  g_said.operand_roundoff = 0x1p-30;
  EXPECT_EQ(Run(Gemm()).implementation, "own, takes operands to a relative 2^-30");
}

TEST_F(CaseRunTest, TheImplementationSaysHowSumsAreCutOff) {
  const auto described = [&](TruncatingUnit unit) {
    g_said.accumulator = {.truncation = unit};
    return Run(Gemm(DType::kBF16)).implementation;
  };
  const std::string cut = "cuts sums off at a relative 2^-23";
  EXPECT_EQ(described({}), "");
  EXPECT_EQ(described({.roundoff = 0x1p-23, .block = 8}), cut);
  EXPECT_EQ(described({.roundoff = 0x1p-23, .block = 8, .further_bits = 0}),
            Cat(cut, ", blocks of 8 with 0 further bits"));
  EXPECT_EQ(described({.roundoff = 0x1p-23, .block = 8, .further_bits = 2, .promoted = 1}),
            Cat(cut, ", blocks of 8 with 2 further bits, up to 1 products"));
  EXPECT_EQ(described({.roundoff = 0x1p-24, .promoted = 128}),
            "cuts sums off at a relative 2^-24, up to 128 products");
}

// ---- beside others: what comes of it

class Beside : public CaseRunTest {
 protected:
  Beside() { device_.shares = true; }

  std::vector<LedOutcome> RunTwo(const Case& c, PhaseObserver& observer) {
    const std::vector<Case> cases = {c, c};
    return CaseRunner(device_, Kernels(c), nullptr).RunLeading(cases, observer);
  }
};

double SecondsOf(const CaseOutcome& outcome, std::string_view phase) {
  double seconds = 0;
  for (const PhaseTime& t : outcome.phases) seconds += t.phase == phase ? t.seconds : 0;
  return seconds;
}

TEST_F(Beside, EachHasItsShareOfWhatIsDoneTogether) {
  device_.step = 1;
  const std::vector<LedOutcome> led = RunTwo(Gemm(), observer_);
  ASSERT_EQ(led.size(), 2u);
  for (const LedOutcome& one : led) {
    EXPECT_EQ(one.suspicion, "");
    ASSERT_TRUE(one.outcome.has_value());
    EXPECT_EQ(one.outcome->verdict, Verdict::kPassed);
    // Every other step takes whole seconds of this clock.
    for (const char* phase : {"fill", "compare"}) {
      const double seconds = SecondsOf(*one.outcome, phase);
      EXPECT_EQ(seconds - std::floor(seconds), 0.5) << phase;
    }
  }
}

TEST_F(Beside, AFaultIsReportedInTheStepThatItIsIn) {
  struct : PhaseObserver {
    std::string steps;
    void Enter(Phase phase) override { steps += Cat(PhaseName(phase), " "); }
    void Turn(int place) override { steps += Cat(place, ": "); }
  } observer;
  RunTwo(Gemm(), observer);
  EXPECT_THAT(observer.steps, HasSubstr("-1: compare 0: compare idle 1: compare idle "));
}

TEST_F(Beside, TheCasesCriterionGates) {
  Case c = Gemm();
  c.criterion = Criterion::kUlp;
  c.max_ulp = 3;
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    values[5] *= 1 + 0x1p-22;
  };
  const std::vector<LedOutcome> led = RunTwo(c, observer_);
  ASSERT_EQ(led.size(), 2u);
  EXPECT_TRUE(led[0].outcome.has_value()) << led[0].suspicion;
  c.max_ulp = 1;
  EXPECT_THAT(RunTwo(c, observer_)[0].suspicion, HasSubstr("threshold: "));
}

TEST_F(Beside, ExactCasesLeaveTheOthersOperandsAlone) {
  Case c = Gemm();
  c.probes = true;
  device_.shares = false;
  EXPECT_EQ(Run(c).verdict, Verdict::kPassed);
  EXPECT_EQ(Run(c).verdict, Verdict::kPassed);
  ASSERT_GT(g_made.size(), 3u);
  for (const Made& made : g_made) EXPECT_EQ(made.blocks, 0u) << "alone they take all";
  device_.shares = true;
  g_made.clear();
  ASSERT_EQ(RunTwo(c, observer_).size(), 2u);
  ASSERT_GT(g_made.size(), 3u);
  EXPECT_EQ(g_made[0].blocks, 0u);
  EXPECT_GT(g_made[1].blocks, 0u);
  for (std::size_t i = 2; i < g_made.size(); ++i) {
    EXPECT_EQ(g_made[i].blocks, 2 * g_made[1].blocks) << i;
  }
}

// ---- how a case ends

TEST_F(CaseRunTest, WhoIsToBlameForAFault) {
  const auto blamed = [&] {
    const CaseOutcome outcome = Run(Gemm());
    EXPECT_EQ(outcome.findings.size(), 1u);
    return outcome.findings.at(0);
  };
  g_said.launch = [](int) { return absl::InternalError("no"); };
  EXPECT_EQ(blamed().reason, Reason::kFault);
  EXPECT_EQ(blamed().blame, Blame::kDevice);
  g_said.reaches_device_memory = true;
  EXPECT_EQ(blamed().blame, Blame::kKernel) << "it takes the device's context with it";
  g_said.launch = [](int) { return absl::ResourceExhaustedError("no"); };
  EXPECT_EQ(blamed().reason, Reason::kMemory);
  EXPECT_EQ(blamed().blame, Blame::kHost);
  g_said.make = [](int) { return absl::InternalError("no"); };
  EXPECT_EQ(blamed().reason, Reason::kFault);
  EXPECT_EQ(blamed().blame, Blame::kLibrary);
}

TEST_F(CaseRunTest, ACaseThatNobodyTakesIsUnsupported) {
  dtypes_ = {DType::kF16, DType::kF32};
  CaseOutcome outcome = Run(Gemm(DType::kBF16));
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported);
  EXPECT_EQ(First(outcome), "unsupported: saying gemm takes fp16, fp32 on cpu, not bf16");
  EXPECT_FALSE(outcome.bench.has_value());
  Case c = Gemm();
  c.provider = "nobody";
  EXPECT_EQ(First(Run(c)), "unsupported: provider \"nobody\" has no gemm on cpu");
  unavailable_ = "its library is not there";
  EXPECT_EQ(First(Run(Gemm())), "unsupported: its library is not there");
  EXPECT_TRUE(g_made.empty());
}

TEST_F(CaseRunTest, ACaseThatHasEndedHasNoExactCases) {
  Case c = Gemm();
  c.probes = true;
  g_said.launch = [](int) { return absl::ResourceExhaustedError("no"); };
  EXPECT_EQ(Run(c).verdict, Verdict::kInconclusive);
  EXPECT_EQ(g_made.size(), 1u);
  c.provider = "nobody";
  EXPECT_TRUE(Run(c).probes.empty());
}

// ---- later launches

// Whichever launch of a stranger's kernel is wrong: that is found, by its bits alone.
TEST_F(CaseRunTest, NoWrongLaunchOfAStrangersKernelPasses) {
  g_said.trusted = false;
  device_.seconds = 0.001;
  const auto run = [&](int wrong) {
    g_launches = 0;
    g_said.spoil = [wrong](float* values, int n) {
      if (n == wrong) values[3] += 1;
    };
    return Run(CopyOf(64));
  };
  EXPECT_EQ(run(0).verdict, Verdict::kPassed);
  const int launches = g_launches;
  EXPECT_EQ(launches, 5) << "the first, one on secret data, one back on its own, two without it";
  for (int half = 0; half < 3; ++half) {
    // Digests that differ in one half alone.
    device_.as_digest = [half](TensorDigest d) {
      if (half < 2) d.raw[half] = 0;
      return d;
    };
    for (int n = 1; n <= launches; ++n) {
      EXPECT_EQ(run(n).verdict, Verdict::kFailed) << n << " of " << launches << ", half " << half;
    }
  }
}

// Zeros once, which a kernel may give for results so small.
TEST_F(CaseRunTest, ALaterLaunchInOrderTakesNoDoubtBack) {
  Case c = Gemm();
  c.pattern = "denormal/uniform:-0.1:0.1";
  c.probes = true;
  device_.seconds = 0.001;
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    if (g_launches == 1) std::fill(values.begin(), values.end(), 0.0);
  };
  const CaseOutcome outcome = Run(c);
  EXPECT_GE(g_launches, 3);
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  EXPECT_THAT(First(outcome), HasSubstr("every result is at most 1.18e-38"));
  testing::TheDistortion() = [](std::vector<double>&, const Plan&) {};
  EXPECT_EQ(Run(c).verdict, Verdict::kPassed);
}

// ---- timed launches

class Timed : public CaseRunTest {
 protected:
  Case Both(Mode mode = Mode::kBoth) {
    Case c = Gemm();
    std::get<GemmProblem>(c.problem) = {.m = 136, .n = 136, .k = 8};  // a launch is a sample
    c.mode = mode;
    return c;
  }
  // A timed case whose launches in `wrong` are wrong.
  CaseOutcome RunWrong(const Case& c, std::vector<int> wrong) {
    g_launches = 0;
    testing::TheDistortion() = [wrong](std::vector<double>& values, const Plan&) {
      if (std::ranges::count(wrong, g_launches) > 0) values[3] += 1;
    };
    return Run(c);
  }
};

TEST_F(Timed, TheFirstTimedOutputIsHeldAgainstTheJudgedOne) {
  const CaseOutcome right = RunWrong(Both(), {});
  EXPECT_EQ(right.verdict, Verdict::kPassed);
  EXPECT_FALSE(right.deterministic.has_value());
  EXPECT_EQ(right.implementation, "timed with operands in cache");
  for (const int n : {2, 3, 4}) {
    const CaseOutcome outcome = RunWrong(Both(), {n});
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << n;
    EXPECT_EQ(outcome.deterministic, false);
    EXPECT_THAT(First(outcome), HasSubstr(" outputs of timed launches 1 was unlike the first"));
  }
  EXPECT_THAT(First(RunWrong(Both(), {3, 4})), HasSubstr(" 2 were unlike the first"));
}

TEST_F(Timed, WhatHadNoRoomToBeKeptIsADoubt) {
  device_.watched = WatchFindings{.looks = 12, .others = 1, .unkept = 1, .kept = {}};
  const CaseOutcome none = Run(Both());
  EXPECT_EQ(none.verdict, Verdict::kInconclusive);
  EXPECT_EQ(First(none),
            "memory: of 12 outputs of timed launches 1 was unlike the first, and there was no "
            "memory to keep one to be judged");
  EXPECT_EQ(none.deterministic, false);
  ASSERT_TRUE(none.bench.has_value());
  EXPECT_TRUE(none.bench->median_seconds.has_value());
}

TEST_F(Timed, HowManyOutputsWereNotJudgedIsSaid) {
  std::vector<float> right(136 * 136);
  device_.watched = WatchFindings{.looks = 12, .others = 5, .unkept = 4, .kept = {}};
  // The kept one is the output itself, as the last launch left it.
  g_said.launch = [&](int) { return absl::OkStatus(); };
  const TensorView kept{right.data(), DType::kF32, Extents::Dense(1, 136, 136)};
  testing::TheDistortion() = [&](std::vector<double>& values, const Plan&) {
    for (std::size_t i = 0; i < values.size(); ++i) right[i] = static_cast<float>(values[i]);
  };
  device_.watched->kept = {kept};
  const CaseOutcome outcome = Run(Both());
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << First(outcome);
  EXPECT_EQ(outcome.deterministic, false);
  EXPECT_EQ(outcome.implementation,
            "judged 1 varying outputs, and not those of 4 samples, timed with operands in cache");
}

TEST_F(Timed, TheTimingIsAPhaseOfItsOwn) {
  struct : PhaseObserver {
    std::vector<std::string> phases;
    void Enter(Phase phase) override { phases.emplace_back(PhaseName(phase)); }
  } observer;
  const Case c = Both(Mode::kBenchmark);
  const CaseOutcome outcome = CaseRunner(device_, Kernels(c), nullptr).Run(c, observer);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  EXPECT_EQ(outcome.implementation, "timed with operands in cache") << "and timed once";
  const auto first = std::ranges::find(observer.phases, "bench");
  ASSERT_NE(first, observer.phases.end());
  EXPECT_EQ(std::count(observer.phases.begin(), first, "kernel"), 0) << "before any launch";
  const auto guards = std::ranges::find(observer.phases, "reference") - 1;
  EXPECT_EQ(*guards, "guards");
  EXPECT_EQ(*(guards - 1), "bench") << "ceilings are measured there";
}

TEST_F(Timed, WhatIsWrongAlreadyIsNotLaunchedAgain) {
  Case c = Gemm();
  for (const Mode mode : {Mode::kBoth, Mode::kValidate}) {
    c.mode = mode;
    device_.seconds = 0.001;
    EXPECT_EQ(RunWrong(c, {1}).verdict, Verdict::kFailed);
    EXPECT_EQ(g_launches, 1);
  }
}

// Of each launch its threads waited for other programs, up to a share that is still in order.
TEST_F(Timed, AShareThatThreadsWaitedMakesATimeNoisy) {
  class Waits : public ConditionsReader {
   public:
    explicit Waits(double seconds) : seconds_(seconds) {}
    ConditionsReading Read() override { return {}; }
    // Asked before the timing, and before and after each sample.
    std::optional<double> WaitedSeconds() override { return asked_++ % 2 == 0 ? seconds_ : 0; }
    std::chrono::steady_clock::time_point Now() override { return {}; }

   private:
    const double seconds_;
    int asked_ = 0;
  };
  device_.seconds = 1;
  for (const double share : {0.0, kMostWaiting - 0.01, kMostWaiting + 0.01}) {
    Waits waits(share);
    const CaseOutcome outcome = Run(Both(Mode::kBenchmark), nullptr, &waits);
    ASSERT_TRUE(outcome.bench.has_value());
    EXPECT_NEAR(outcome.bench->conditions->waiting_ratio.value_or(-1), share, 1e-6);
    EXPECT_EQ(outcome.bench->noisy, share > kMostWaiting) << share;
  }
}

// ---- exact cases, and what is shown of a failure

TEST_F(CaseRunTest, ElementsThatWereAskedForAreShown) {
  Case c = Gemm();
  c.slices = {"actual[0:2,0:3]", "expected[1:2,0:1]"};
  const CaseOutcome outcome = Run(c);
  ASSERT_EQ(outcome.slices.size(), 2u);
  EXPECT_THAT(outcome.slices[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(outcome.slices[1].name, "expected[1:2,0:1]");
}

TEST_F(CaseRunTest, WhatWrongElementsLookLikeIsSaid) {
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    for (double& v : values) v *= 2;
  };
  const CaseOutcome outcome = Run(Gemm());
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.pattern_of_errors, "every element");
  EXPECT_EQ(outcome.reads_as, "every value is 2 times what it should be (2): a scale is wrong");
  EXPECT_THAT(outcome.next_step, HasSubstr("look at where the result is scaled"));
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) { values[3] += 1; };
  EXPECT_THAT(Run(Gemm()).next_step, HasSubstr("run it again: "));
}

TEST_F(CaseRunTest, ExactCasesAreToldOfTheSlowestLaunchAndTheirTimeIsAPhase) {
  Case c = Gemm();
  c.probes = true;
  c.repeats = 3;
  g_said.launch = [&](int n) {
    device_.seconds = n == 2 ? 5 : 3;
    return absl::OkStatus();
  };
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << First(outcome);
  ASSERT_GT(g_made.size(), 1u);
  EXPECT_EQ(g_made[0].slowest_launch, 0);
  for (std::size_t i = 1; i < g_made.size(); ++i) EXPECT_EQ(g_made[i].slowest_launch, 5);
  EXPECT_EQ(outcome.phases.back().phase, "probes");
  c.probes = false;
  for (const PhaseTime& t : Run(c).phases) EXPECT_NE(t.phase, "probes");
}

// Wrong for the case, or for exact cases alone, which have no pattern of the case.
TEST_F(CaseRunTest, WhatExactCasesFindComesFirstUnlessTheCaseHasFailed) {
  Case c = Gemm();
  c.probes = true;
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) {
    if (g_made.size() > 1) values[3] += 1;
  };
  const CaseOutcome probes = Run(c);
  EXPECT_EQ(probes.verdict, Verdict::kFailed);
  ASSERT_FALSE(probes.findings.empty());
  EXPECT_EQ(probes.findings[0].subject, "exact-sparse");

  g_made.clear();
  testing::TheDistortion() = [](std::vector<double>& values, const Plan&) { values[3] += 1; };
  const CaseOutcome both = Run(c);
  EXPECT_EQ(both.verdict, Verdict::kFailed);
  ASSERT_GT(both.findings.size(), 1u);
  EXPECT_EQ(both.findings.front().subject, "");
  EXPECT_NE(both.findings.back().subject, "");
}

TEST_F(CaseRunTest, IndicesThatAreAllZeroProveNothingWithoutExactCases) {
  Case c;
  c.problem = ReduceProblem{.extents = {8, 1}, .kind = "argmax"};
  c.dtype = DType::kF32;
  c.provider = "saying";
  c.seed = 7;
  const CaseOutcome with = Run(c);
  EXPECT_EQ(with.verdict, Verdict::kPassed) << First(with);
  g_made.clear();
  g_said.make = [](int n) {
    return n > 1 ? absl::UnimplementedError("not these extents") : absl::OkStatus();
  };
  const CaseOutcome without = Run(c);
  EXPECT_EQ(without.verdict, Verdict::kInconclusive);
  EXPECT_EQ(First(without),
            "zeros: every output element is 0 and so is the reference: nothing was proven");
}

}  // namespace
}  // namespace assay
