// Small cases beside one another on a GPU: what each is found to be is what it is alone,
// whatever the others do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backends/gpu_backend.h"
#include "kernels/providers/provider.h"
#include "kernels/simt/engine.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "simt/host_control.h"

namespace assay {
namespace {

using ::testing::StartsWith;

// Copies its input; then does what a test has it do. The emulator's memory is the host's.
class TrickKernel final : public Kernel {
 public:
  using Trick = std::function<absl::Status(std::span<const TensorView>, const TensorView&)>;
  explicit TrickKernel(Trick trick) : trick_(std::move(trick)) {}
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    std::memcpy(output.data, inputs[0].data, static_cast<std::size_t>(output.bytes()));
    ++launches;
    return trick_ ? trick_(inputs, output) : absl::OkStatus();
  }

  static inline int launches = 0;  // of all of them

 private:
  Trick trick_;
};

class Together : public ::testing::Test {
 protected:
  Together() {
    simt::CurrentConfig() = simt::Config{};
    simt::ResetHost();
    simt::TakeFaults();
    tricks_.clear();
    GpuBackend().Register(registry_);
    registry_.Add(KernelEntry{
        .op = "copy",
        .provider = "trick",
        .backend = GpuBackend().name(),
        .dtypes = {DType::kF32},
        .make = [](const Case& c, const Plan&, Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
          if (tricks_.contains(*c.seed) && !tricks_[*c.seed]) {
            return absl::UnimplementedError("not this one");
          }
          return std::make_unique<TrickKernel>(tricks_[*c.seed]);
        },
        .version = {},
        .unavailable_reason = {}});
    device_ = *GpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
  }
  ~Together() override {
    device_.reset();
    EXPECT_TRUE(simt::TakeFaults().empty());
    simt::ResetHost();
  }

  static Case CaseOf(const Problem& problem, DType dtype) {
    Case c;
    c.problem = problem;
    c.dtype = dtype;
    c.provider = "builtin";
    c.seed = 7;
    return c;
  }
  // Cases of the trick kernel with seeds 0 to n − 1; `tricks_` has what those do.
  std::vector<Case> Tricks(std::size_t n) {
    std::vector<Case> cases(n, CaseOf(CopyProblem{.count = 333}, DType::kF32));
    for (std::size_t i = 0; i < n; ++i) {
      cases[i].provider = "trick";
      cases[i].probes = false;
      cases[i].seed = i;
      if (!tricks_.contains(i)) tricks_[i] = [](auto, auto&) { return absl::OkStatus(); };
    }
    return cases;
  }
  std::vector<LedOutcome> RunLeading(const std::vector<Case>& cases) {
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).RunLeading(cases, observer);
  }
  CaseOutcome Run(const Case& c) {
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }

  Registry registry_;
  static inline std::map<std::uint64_t, TrickKernel::Trick> tricks_;
  std::unique_ptr<Device> device_;
};

TEST_F(Together, EachIsWhatItIsAlone) {
  AttentionProblem attention;
  attention.heads = 2;
  attention.seq = 19;
  attention.dim = 32;
  const std::vector<Case> cases = {
      CaseOf(GemmProblem{.m = 33, .n = 29, .k = 65}, DType::kF16),
      CaseOf(GemmProblem{.m = 7, .n = 24, .k = 40, .trans_b = true}, DType::kF32),
      CaseOf(attention, DType::kBF16),
      CaseOf(SoftmaxProblem{.rows = 15, .cols = 143}, DType::kF16),
      CaseOf(LayerNormProblem{.rows = 5, .cols = 1000}, DType::kBF16),
      CaseOf(DequantSoftmaxProblem{.m = 3, .n = 43, .k = 65}, DType::kF32),
      CaseOf(CopyProblem{.count = 2570}, DType::kF16),
      CaseOf(CopyProblem{.count = 1}, DType::kF64),
      CaseOf(CopyProblem{.count = 9}, DType::kF32)};
  Run(cases[7]);  // takes the arena
  const simt::HostUse begin = simt::InUse();
  const std::vector<LedOutcome> beside = RunLeading(cases);
  ASSERT_EQ(beside.size(), kMostTogether);
  for (std::size_t i = 0; i < beside.size(); ++i) {
    SCOPED_TRACE(OpName(cases[i].problem));
    const CaseOutcome alone = Run(cases[i]);
    ASSERT_TRUE(beside[i].outcome.has_value()) << beside[i].suspicion;
    EXPECT_EQ(beside[i].outcome->verdict, Verdict::kPassed);
    EXPECT_EQ(alone.verdict, Verdict::kPassed);
    EXPECT_EQ(beside[i].outcome->compare->digest_raw[0], alone.compare->digest_raw[0]);
    EXPECT_EQ(beside[i].outcome->compare->count, alone.compare->count);
    EXPECT_EQ(beside[i].outcome->compare->rho, alone.compare->rho);
    EXPECT_EQ(beside[i].outcome->unwritten, alone.unwritten);
    ASSERT_EQ(beside[i].outcome->probes.size(), alone.probes.size());
    for (std::size_t p = 0; p < alone.probes.size(); ++p) {
      EXPECT_EQ(beside[i].outcome->probes[p].digest, alone.probes[p].digest);
      EXPECT_EQ(beside[i].outcome->probes[p].verdict, alone.probes[p].verdict);
    }
    EXPECT_EQ(beside[i].outcome->phases.size(), alone.phases.size());
    for (const PhaseTime& phase : beside[i].outcome->phases)
      EXPECT_GE(phase.seconds, 0) << phase.phase;
  }
  EXPECT_EQ(simt::InUse().allocations, begin.allocations);
}

// Of eight cases, one copy instead of eight for the inputs and one for the comparisons. A launch
// that was short is repeated, with copies of its own, and what is short depends on the machine. So
// runs with the same number of launches are compared.
TEST_F(Together, EightCasesNeedFewerCopies) {
  const std::vector<Case> cases = Tricks(kMostTogether);
  Run(cases[0]);  // takes the arena
  for (int attempt = 0; attempt < 50; ++attempt) {
    const auto use = [&](const std::function<void()>& run) {
      const simt::HostUse before = simt::InUse();
      TrickKernel::launches = 0;
      run();
      return std::pair(TrickKernel::launches, simt::InUse().copies_to_host - before.copies_to_host);
    };
    const auto beside = use([&] { RunLeading(cases); });
    const auto alone = use([&] {
      for (const Case& c : cases) Run(c);
    });
    if (beside.first != alone.first) continue;
    EXPECT_LE(beside.second, alone.second - 14);
    return;
  }
  FAIL() << "no two runs had the same number of launches";
}

TEST_F(Together, OnlySmallCasesOfOneJudgedLaunchShare) {
  Case small = CaseOf(CopyProblem{.count = 100}, DType::kF32);
  small.probes = false;
  const auto ran = [&](const std::vector<Case>& cases) { return RunLeading(cases).size(); };
  EXPECT_EQ(ran({small, small, small}), 3u);
  EXPECT_EQ(ran({small}), 1u);
  Case other = small;
  other.mode = Mode::kBenchmark;
  EXPECT_EQ(ran({other, small}), 1u);
  EXPECT_EQ(ran({small, small, other, small}), 2u);
  other = small;
  other.repeats = 3;
  EXPECT_EQ(ran({small, other}), 1u);
  other = small;
  other.criterion = Criterion::kDerived;
  EXPECT_EQ(ran({small, other}), 1u);
  EXPECT_EQ(ran({small, CaseOf(CopyProblem{.count = 1 << 17}, DType::kF32)}), 1u);
  EXPECT_EQ(ran({small, CaseOf(CopyProblem{.count = 100}, DType::kI8)}), 1u)
      << "what has no poison to spare is launched twice";
}

// All have passed but those whose suspicions begin so.
void ExpectPassedBut(const std::map<std::size_t, std::string>& suspected,
                     const std::vector<LedOutcome>& led) {
  for (std::size_t i = 0; i < led.size(); ++i) {
    SCOPED_TRACE(i);
    const auto found = suspected.find(i);
    EXPECT_EQ(led[i].outcome.has_value(), found == suspected.end());
    if (led[i].outcome) {
      EXPECT_EQ(led[i].outcome->verdict, Verdict::kPassed);
    }
    const std::string begin = found == suspected.end() ? "" : found->second;
    EXPECT_THAT(led[i].suspicion, StartsWith(begin));
    EXPECT_EQ(led[i].suspicion.empty(), begin.empty());
  }
}

TEST_F(Together, AWrongOneIsSuspectedAndNoOther) {
  tricks_[2] = [](auto, const TensorView& output) {
    output.as<float>()[100] += 1;
    return absl::OkStatus();
  };
  const auto led = RunLeading(Tricks(5));
  ASSERT_EQ(led.size(), 5u);
  ExpectPassedBut({{2, "exact: "}}, led);
}

TEST_F(Together, WhatWritesOutsideItsOperandsIsSuspected) {
  tricks_[1] = [](auto, const TensorView& output) {
    output.as<float>()[output.count()] = 3;  // the guard band behind
    return absl::OkStatus();
  };
  const auto led = RunLeading(Tricks(3));
  ASSERT_EQ(led.size(), 3u);
  ExpectPassedBut({{1, "guard: "}}, led);
}

// Past every guard band, into the output of another: whose fault that is, nobody can see.
TEST_F(Together, AnOutputThatAnotherHasSpoiledFailsNobody) {
  float* victim = nullptr;
  tricks_[0] = [&](auto, const TensorView& output) {
    victim = output.as<float>();
    return absl::OkStatus();
  };
  tricks_[2] = [&](auto, const TensorView&) {
    victim[17] += 1;
    return absl::OkStatus();
  };
  const auto led = RunLeading(Tricks(4));
  ASSERT_EQ(led.size(), 4u);
  ExpectPassedBut({{0, "exact: "}}, led);
}

TEST_F(Together, WhatWasWrongOnceIsNotForgotten) {
  int launches = 0;
  tricks_[1] = [&](auto, const TensorView& output) {
    if (launches++ == 0) output.as<float>()[5] += 1;
    return absl::OkStatus();
  };
  const auto led = RunLeading(Tricks(2));
  ASSERT_EQ(led.size(), 2u);
  ExpectPassedBut({{1, "exact: "}}, led);
}

TEST_F(Together, InputsThatAKernelChangesAreItsOwnFault) {
  tricks_[0] = [](std::span<const TensorView> inputs, const TensorView&) {
    inputs[0].as<float>()[3] = 9;
    return absl::OkStatus();
  };
  const auto led = RunLeading(Tricks(3));
  ASSERT_EQ(led.size(), 3u);
  ExpectPassedBut({{0, "guard: "}}, led);
}

TEST_F(Together, ARefusalSaysNothingAndAnErrorDoes) {
  std::vector<Case> cases = Tricks(3);
  tricks_[0] = nullptr;  // refuses
  tricks_[2] = [](auto, auto&) { return absl::InternalError("no"); };
  const auto led = RunLeading(cases);
  ASSERT_EQ(led.size(), 3u);
  EXPECT_FALSE(led[0].outcome.has_value());
  EXPECT_EQ(led[0].suspicion, "");
  EXPECT_TRUE(led[1].outcome.has_value());
  EXPECT_FALSE(led[2].outcome.has_value());
  EXPECT_EQ(led[2].suspicion, "fault: trick: no");
}

// What a launch enqueued before it failed is its own fault still.
TEST_F(Together, OfALostDeviceOnlyWhoseTurnItWasIsSuspected) {
  for (const bool fails : {false, true}) {
    simt::ResetHost();
    device_ = *GpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
    tricks_[1] = [fails](auto, auto&) {
      simt::InjectFault(719);
      return fails ? absl::InternalError("no") : absl::OkStatus();
    };
    const auto led = RunLeading(Tricks(4));
    ASSERT_EQ(led.size(), 4u);
    for (std::size_t i = 0; i < led.size(); ++i) {
      EXPECT_FALSE(led[i].outcome.has_value()) << i;
      EXPECT_EQ(led[i].suspicion.empty(), i != 1) << i << led[i].suspicion;
    }
    EXPECT_FALSE(device_->health().ok());
  }
}

// Whose kernel runs is always known; who shares a step is nobody in particular.
TEST_F(Together, TheObserverIsToldWhoseTurnItIs) {
  struct Turns : PhaseObserver {
    void Enter(Phase phase) override { seen[{turn, phase}]++; }
    void Turn(int place) override { turn = place; }
    int turn = -2;
    std::map<std::pair<int, Phase>, int> seen;
  } turns;
  int launched_by_others = 0;
  for (int i = 0; i < 3; ++i) {
    tricks_[static_cast<std::uint64_t>(i)] = [&, i](auto, auto&) {
      launched_by_others += turns.turn == i ? 0 : 1;
      return absl::OkStatus();
    };
  }
  CaseRunner(*device_, registry_, nullptr).RunLeading(Tricks(3), turns);
  EXPECT_EQ(launched_by_others, 0);
  EXPECT_EQ((turns.seen.count({kAllTogether, Phase::kFill})), 1u);
  EXPECT_EQ((turns.seen.count({kAllTogether, Phase::kCompare})), 1u);
  EXPECT_EQ((turns.seen.count({kAllTogether, Phase::kKernel})), 0u);
}

}  // namespace
}  // namespace assay
