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
#include "tests/unit/judge/distorted.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using testing::GemmCase;
using ::testing::HasSubstr;

// The CPU, of which every launch takes as long as the test says, and which a test can break.
class OwnDevice : public testing::ForwardingDevice {
 public:
  double seconds = 1;                     // of a launch
  int digests = 0, compares = 0;          // so far
  int lost_digest = 0, lost_compare = 0;  // the one that fails, from 1 on; 0: none
  std::function<TensorDigest(TensorDigest)> as_digest = [](TensorDigest d) { return d; };

  absl::StatusOr<double> TimeLaunch(absl::FunctionRef<absl::Status()> launch) override {
    absl::Status status = launch();
    if (!status.ok()) return status;
    return seconds;
  }
  absl::StatusOr<TensorDigest> Digest(const TensorView& t) override {
    if (++digests == lost_digest) return absl::DataLossError("no digest");
    absl::StatusOr<TensorDigest> digest = cpu_->Digest(t);
    if (digest.ok()) *digest = as_digest(*digest);
    return digest;
  }
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override {
    if (++compares == lost_compare) return absl::DataLossError("no comparison");
    reference = const_cast<double*>(request.reference);
    absl::StatusOr<CompareResult> result = cpu_->Compare(request);
    if (result.ok()) {
      TensorDigest digest;
      std::ranges::copy(result->digest_raw, digest.raw);
      std::ranges::copy(as_digest(digest).raw, result->digest_raw);
    }
    return result;
  }
  absl::Status Synchronize() override {
    return lost ? absl::DataLossError("lost") : cpu_->Synchronize();
  }
  bool lost = false;
  double* reference = nullptr;  // of the last comparison

  absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& request) override {
    return cpu_->Checksum(request);
  }
  absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) override {
    return cpu_->FromHost(src, bytes, dst);
  }
  bool shares_launches() const override { return shares; }
  bool shares = false;

  absl::StatusOr<std::unique_ptr<OutputWatch>> WatchOutputs(
      const TensorView& output, const std::optional<TensorDigest>& known) override {
    if (!watched) return cpu_->WatchOutputs(output, known);
    class Watch : public OutputWatch {
     public:
      explicit Watch(WatchFindings findings) : findings_(std::move(findings)) {}
      absl::Status Look(const TensorView&) override { return absl::OkStatus(); }
      absl::StatusOr<WatchFindings> Findings() override { return findings_; }

     private:
      const WatchFindings findings_;
    };
    return std::make_unique<Watch>(*watched);
  }
  std::optional<WatchFindings> watched;  // what a watch of timed outputs finds; else the CPU's

  double Now() override { return step > 0 ? now_ += step : cpu_->Now(); }
  double step = 0;  // [s] between two readings of the clock; 0: the CPU's clock

 private:
  double now_ = 0;
};

// What a kernel says of itself, and what its launches do.
struct Said {
  bool trusted = true;
  bool reaches_device_memory = false;
  std::string implementation = {};
  std::vector<std::string> libraries = {};
  Accumulator accumulator = {};
  double operand_roundoff = 0;
  std::function<absl::Status(int)> make = [](int) { return absl::OkStatus(); };    // the n-th's end
  std::function<absl::Status(int)> launch = [](int) { return absl::OkStatus(); };  // the n-th's end
  std::function<void(float*, int)> spoil = [](float*, int) {};  // what the n-th launch copied
  bool leaves = false;                                          // one element of a copy unwritten
  bool changes = false;                                         // one of its input
  bool flushes = false;
};

// A kernel that was made.
struct Made {
  std::size_t blocks = 0;  // that the arena had in use
  double slowest_launch = 0;
};

Said g_said;
std::vector<Made> g_made;
int g_launches = 0;

class SayingKernel : public testing::DistortedKernel {
 public:
  SayingKernel(const Case& c, const Plan& plan)
      : DistortedKernel(c, plan), copies_(std::holds_alternative<CopyProblem>(c.problem)) {}
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    if (absl::Status end = g_said.launch(++g_launches); !end.ok()) return end;
    if (!copies_) {
      const std::int32_t left = output.as<std::int32_t>()[0];
      absl::Status status = DistortedKernel::Launch(inputs, output);
      if (g_said.leaves) output.as<std::int32_t>()[0] = left;
      return status;
    }
    std::memcpy(output.data, inputs[0].data, static_cast<std::size_t>(output.bytes()));
    g_said.spoil(output.as<float>(), g_launches);
    if (g_said.changes) inputs[0].as<float>()[1] += 1;
    return absl::OkStatus();
  }
  bool trusted() const override { return g_said.trusted; }
  bool flushes_subnormals() const override { return g_said.flushes; }
  bool reaches_device_memory() const override { return g_said.reaches_device_memory; }
  std::string implementation() const override { return g_said.implementation; }
  std::vector<std::string> loaded_libraries() const override { return g_said.libraries; }
  Accumulator accumulator() const override { return g_said.accumulator; }
  double operand_roundoff() const override { return g_said.operand_roundoff; }

 private:
  const bool copies_;
};

class CaseRunTest : public ::testing::Test {
 protected:
  CaseRunTest() {
    g_said = {};
    g_made.clear();
    g_launches = 0;
    testing::TheDistortion() = [](std::vector<double>&, const Plan&) {};
  }

  Case Gemm(DType dtype = DType::kF32) {
    Case c = GemmCase(dtype, 8, 8, 8);
    c.provider = "saying";
    c.probes = false;
    c.seed = 7;
    return c;
  }

  const Registry& Kernels(const Case& c) {
    registry_ = {};
    registry_.Add({.op = OpName(c.problem),
                   .provider = "saying",
                   .backend = "cpu",
                   .dtypes = dtypes_.empty() ? std::vector<DType>{c.dtype} : dtypes_,
                   .make = [](const Case& made, const Plan& plan,
                              Device& device) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                     g_made.push_back({device.arena().blocks().size(), made.slowest_launch});
                     const auto n = static_cast<int>(g_made.size());
                     if (absl::Status end = g_said.make(n); !end.ok()) return end;
                     return std::make_unique<SayingKernel>(made, plan);
                   },
                   .version = {},
                   .unavailable_reason = unavailable_});
    return registry_;
  }

  CaseOutcome Run(const Case& c, Ceilings* ceilings = nullptr, ConditionsProbe* probe = nullptr) {
    g_launches = 0;
    return CaseRunner(device_, Kernels(c), ceilings, probe).Run(c, observer_);
  }

  bool MayShare(const Case& c) {
    CaseRun run(c, device_, Kernels(c), nullptr, nullptr, nullptr, observer_);
    EXPECT_TRUE(run.Begin());
    return run.MayShare();
  }

  OwnDevice device_;
  Registry registry_;
  std::vector<DType> dtypes_;  // that the kernel takes; empty: the case's
  std::string unavailable_;
  PhaseObserver observer_;
};

std::string First(const CaseOutcome& outcome) {
  if (outcome.findings.empty()) return "";
  return Cat(ReasonWord(outcome.findings[0].reason), ": ", outcome.findings[0].message);
}

// ---- beside others

Case CopyOf(std::int64_t count) {
  Case c;
  c.problem = CopyProblem{.count = count};
  c.dtype = DType::kF32;
  c.provider = "saying";
  c.probes = false;
  c.seed = 7;
  return c;
}

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
  class Waits : public ConditionsProbe {
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
  CaseOutcome RunOnce(const Case& c, double seconds, ConditionsProbe* probe = nullptr) {
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

class Others : public ConditionsProbe {
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
