// Timed launches: the last is judged, none is without a time that can be believed, and the
// result says how it was timed.
#include "kernels/validate/timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/runtime/replay.h"
#include "tests/unit/judge/distorted.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

using testing::GemmCase;
using ::testing::HasSubstr;
using testing::RunDistorted;

// The CPU, but for its clock and its caches.
class OddDevice : public testing::ForwardingDevice {
 public:
  std::vector<double> readings;  // the clock's, from the last on for ever; empty: the CPU's
  bool can_evict = true;
  int evictions = 0;

  absl::Status EvictFromCaches(std::span<const TensorView> views) override {
    ++evictions;
    return can_evict ? cpu_->EvictFromCaches(views) : Device::EvictFromCaches(views);
  }
  double Now() override {
    if (readings.empty()) return cpu_->Now();
    return readings[std::min(next_++, readings.size() - 1)];
  }

 private:
  std::size_t next_ = 0;
};

// Its clock goes on by `step` whenever it is read, so a launch takes the same few steps on any
// machine. It has no matrix unit.
class SteadyDevice : public OddDevice {
 public:
  explicit SteadyDevice(double step = 1e-3) : info_(cpu_->info()), step_(step) {
    info_.properties.erase("matrix_unit");
  }
  const DeviceInfo& info() const override { return info_; }
  double Now() override { return now_ += step_; }

 protected:
  void Advance(double seconds) { now_ += seconds; }

 private:
  DeviceInfo info_;
  const double step_;  // [seconds]
  double now_ = 0;
};

// One that records launches, as GPUs do; its time is `slower` times the host's.
class RecordingDevice : public OddDevice, public LaunchRecorder {
 public:
  bool can_record = true;
  double slower = 1;
  int recorded = 0, replayed = 0;

  absl::StatusOr<double> TimeLaunch(absl::FunctionRef<absl::Status()> launch) override {
    absl::StatusOr<double> seconds = OddDevice::TimeLaunch(launch);
    if (seconds.ok()) *seconds *= slower;
    return seconds;
  }
  absl::StatusOr<std::unique_ptr<RecordedLaunch>> RecordLaunch(
      std::function<absl::Status()> launch) override {
    class Recorded : public RecordedLaunch {
     public:
      Recorded(int& replayed, std::function<absl::Status()> launch)
          : replayed_(replayed), launch_(std::move(launch)) {}
      absl::Status Launch() override { return ++replayed_, launch_(); }

     private:
      int& replayed_;
      const std::function<absl::Status()> launch_;
    };
    if (!can_record) return absl::UnimplementedError("not this one");
    ++recorded;
    return std::make_unique<Recorded>(replayed, std::move(launch));
  }
};

// Runs a case by a kernel of class K, without exact cases.
template <typename K>
CaseOutcome RunKernel(Device& device, Case c, Ceilings* ceilings, ConditionsReader* conditions) {
  testing::TheDistortion() = [](std::vector<double>&, const Plan&) {};
  Registry registry;
  registry.Add(KernelEntry{.op = "gemm",
                           .provider = "distorted",
                           .backend = "cpu",
                           .dtypes = {c.dtype},
                           .make = [](const Case& made, const Plan& plan,
                                      Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                             return std::make_unique<K>(made, plan);
                           },
                           .version = {},
                           .unavailable_reason = {}});
  c.provider = "distorted";
  c.probes = false;
  c.seed = 1;
  PhaseObserver observer;
  return CaseRunner(device, registry, ceilings, conditions).Run(c, observer);
}

CaseOutcome RunOn(Device& device, Case c, Ceilings* ceilings, ConditionsReader* conditions) {
  return RunKernel<testing::DistortedKernel>(device, std::move(c), ceilings, conditions);
}

Case TimedCase(std::int64_t n) {
  Case c = GemmCase(DType::kF32, n, n, n);
  c.mode = Mode::kBenchmark;
  return c;
}

// Right at first, wrong once it is timed for long.
TEST(Timing, TheLastTimedLaunchIsJudged) {
  for (const Mode mode : {Mode::kBenchmark, Mode::kBoth}) {
    Case c = TimedCase(16);
    c.mode = mode;
    int launches = 0;
    const CaseOutcome outcome = RunDistorted(c, [&](std::vector<double>& values, const Plan&) {
      if (launches++ >= 8) values[5] += 1;
    });
    EXPECT_GT(launches, 10);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << static_cast<int>(mode);
    ASSERT_TRUE(outcome.bench.has_value());
    EXPECT_GE(outcome.bench->samples, 10) << "it was timed all the same";
  }
  int launches = 0;
  const CaseOutcome right =
      RunDistorted(TimedCase(16), [&](std::vector<double>&, const Plan&) { ++launches; });
  EXPECT_EQ(right.verdict, Verdict::kPassed);
  EXPECT_GE(launches, right.bench->samples);
}

// Wrong in one launch, or in all from one on, or without any work in every third.
struct Lapse {
  int from = 0, to = 0;  // launches, counted from 1
  int every = 0;         // of which nothing is written; 0: none
};

Lapse g_lapse;
int g_launches = 0;

class LapsingKernel : public testing::DistortedKernel {
 public:
  using DistortedKernel::DistortedKernel;
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    ++g_launches;
    if (g_lapse.every > 0 && g_launches % g_lapse.every == 0) return absl::OkStatus();
    absl::Status status = DistortedKernel::Launch(inputs, output);
    if (g_launches >= g_lapse.from && g_launches <= g_lapse.to) output.as<float>()[5] += 1;
    return status;
  }
};

CaseOutcome RunLapsing(Case c, Lapse lapse) {
  g_lapse = lapse;
  g_launches = 0;
  SteadyDevice device(5e-3);
  return RunKernel<LapsingKernel>(device, std::move(c), nullptr, nullptr);
}

// Each sample is one launch of this, and there are many.
Case SingleCase(Mode mode) {
  Case c = TimedCase(136);
  std::get<GemmProblem>(c.problem).k = 8;
  c.mode = mode;
  return c;
}

TEST(Timing, NoWrongLaunchAmongTimedOnesPasses) {
  for (const Mode mode : {Mode::kBenchmark, Mode::kBoth}) {
    const Case c = SingleCase(mode);
    const bool both = mode == Mode::kBoth;
    for (const int k : both ? std::vector{5, 40} : std::vector{1, 4, 17}) {
      const CaseOutcome once = RunLapsing(c, {.from = k, .to = k});
      EXPECT_GT(g_launches, k + 1) << "it was not the last";
      EXPECT_EQ(once.verdict, Verdict::kFailed) << k << " " << both;
      EXPECT_EQ(once.deterministic, false) << k;
      ASSERT_FALSE(once.findings.empty()) << k;
      EXPECT_EQ(ReasonWord(once.findings[0].reason), "bound");
      EXPECT_THAT(once.findings[0].message, HasSubstr(" outputs of timed launches "));
    }
    EXPECT_EQ(RunLapsing(c, {.from = 17, .to = 1 << 30}).verdict, Verdict::kFailed);
    const CaseOutcome idle = RunLapsing(c, {.every = 3});
    EXPECT_EQ(idle.verdict, Verdict::kFailed);
    EXPECT_EQ(ReasonWord(idle.findings.at(0).reason), "unwritten");
  }
}

// Takes long for the digest of an output.
class SlowDigests : public SteadyDevice {
 public:
  using SteadyDevice::SteadyDevice;
  double takes = 0;           // [seconds]
  std::int64_t elements = 0;  // of the output
  int digests = 0;

  absl::StatusOr<TensorDigest> Digest(const TensorView& t) override {
    if (t.count() == elements) {
      ++digests;
      Advance(takes);
    }
    return cpu_->Digest(t);
  }
};

// C = A · B for K = 1.
class OuterProduct : public testing::DistortedKernel {
 public:
  using DistortedKernel::DistortedKernel;
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::int64_t m = inputs[0].count(), n = inputs[1].count();
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        output.as<float>()[i * n + j] = inputs[0].as<float>()[i] * inputs[1].as<float>()[j];
      }
    }
    return absl::OkStatus();
  }
};

TEST(Timing, OfLargeOutputsThatTakeLongToLookAtAShareIsLookedAt) {
  SlowDigests device(2e-3);
  Case c = TimedCase(520);  // its output is larger than 1 MiB
  std::get<GemmProblem>(c.problem).k = 1;
  device.elements = 520 * 520;
  device.takes = 7;
  CaseOutcome outcome = RunKernel<OuterProduct>(device, c, nullptr, nullptr);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_GE(device.digests, 5) << "the first samples, and the last";
  EXPECT_LT(device.digests, outcome.bench->samples);

  // Now a look takes about three times as long as it may: a third of the samples is drawn at
  // random.
  device.takes = 10e-3;
  device.digests = 0;
  outcome = RunKernel<OuterProduct>(device, c, nullptr, nullptr);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_GE(outcome.bench->samples, 60);
  EXPECT_GE(device.digests, 6) << "of " << outcome.bench->samples;
  EXPECT_LT(device.digests, outcome.bench->samples);
}

TEST(Timing, OutputsThatVaryAndAreRightPass) {
  for (const Mode mode : {Mode::kBenchmark, Mode::kBoth}) {
    const Case c = SingleCase(mode);
    for (const int variants : {2, 1000}) {
      int launches = 0;
      const CaseOutcome outcome = RunDistorted(c, [&](std::vector<double>& values, const Plan&) {
        values[5] *= 1 + ++launches % variants * 0x1p-23 / variants;
        values[6 + static_cast<std::size_t>(launches % variants)] *= 1 + 0x1p-22;
      });
      EXPECT_GT(launches, 10);
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << variants;
      EXPECT_EQ(outcome.deterministic, false);
    }
  }
}

TEST(Timing, OperandsComeFromMemoryButForTinyCases) {
  OddDevice device;
  const CaseOutcome large = RunOn(device, TimedCase(96), nullptr, nullptr);
  EXPECT_EQ(large.verdict, Verdict::kPassed);
  EXPECT_GT(device.evictions, 10) << "before every launch";
  EXPECT_TRUE(large.bench->from_memory);
  EXPECT_THAT(large.implementation, HasSubstr("timed from memory"));

  device.evictions = 0;
  const CaseOutcome tiny = RunOn(device, TimedCase(16), nullptr, nullptr);
  EXPECT_EQ(device.evictions, 0);
  EXPECT_FALSE(tiny.bench->from_memory);
  EXPECT_THAT(tiny.implementation, HasSubstr("operands in cache"));

  device.can_evict = false;
  const CaseOutcome warm = RunOn(device, TimedCase(96), nullptr, nullptr);
  EXPECT_EQ(warm.verdict, Verdict::kPassed);
  EXPECT_EQ(device.evictions, 1) << "asked once";
  EXPECT_FALSE(warm.bench->from_memory) << "and nothing is claimed";
}

// Of a launch that takes the host longer than the device, the host's part is not measured.
TEST(Timing, ShortLaunchesOfADeviceThatRecordsAreDoneAsOne) {
  RecordingDevice device;
  const CaseOutcome tiny = RunOn(device, TimedCase(4), nullptr, nullptr);
  EXPECT_EQ(tiny.verdict, Verdict::kPassed);
  ASSERT_TRUE(tiny.bench.has_value());
  EXPECT_TRUE(tiny.bench->replayed);
  EXPECT_GT(tiny.bench->launches_per_sample, 1);
  EXPECT_THAT(tiny.implementation, HasSubstr("launches as one graph with operands in cache"));
  EXPECT_LT(device.recorded, 20) << "once for each length";
  EXPECT_GE(device.replayed, tiny.bench->samples) << "and done again for each sample";

  device.recorded = 0;
  const CaseOutcome large = RunOn(device, TimedCase(96), nullptr, nullptr);
  EXPECT_EQ(device.recorded, 0) << "its operands come from memory each time";
  EXPECT_THAT(large.implementation, HasSubstr("timed from memory"));

  device.slower = 100;
  const CaseOutcome slow = RunOn(device, TimedCase(4), nullptr, nullptr);
  EXPECT_EQ(device.recorded, 0) << "the host's part is small";
  EXPECT_FALSE(slow.bench->replayed);

  device.slower = 1;
  device.can_record = false;
  const CaseOutcome refused = RunOn(device, TimedCase(4), nullptr, nullptr);
  EXPECT_EQ(refused.verdict, Verdict::kPassed);
  EXPECT_FALSE(refused.bench->replayed);
  EXPECT_THAT(refused.implementation, ::testing::Not(HasSubstr("graph")));
  EXPECT_THAT(refused.implementation, HasSubstr("operands in cache"));
}

TEST(Timing, WhatANoisyKernelReachesUndisturbed) {
  BenchStats stats;
  stats.median_seconds = 4e-3;
  stats.p10_seconds = 2e-3;
  stats.efficiency = 0.2;
  EXPECT_FALSE(UndisturbedEfficiency(stats).has_value());
  stats.noisy = true;
  EXPECT_DOUBLE_EQ(UndisturbedEfficiency(stats).value_or(0), 0.4);
  stats.conditions = BenchConditions{};
  stats.conditions->waiting_ratio = 0.75;
  EXPECT_DOUBLE_EQ(UndisturbedEfficiency(stats).value_or(0), 0.8);
  stats.p10_seconds.reset();
  EXPECT_DOUBLE_EQ(UndisturbedEfficiency(stats).value_or(0), 0.8);
  stats.conditions->waiting_ratio = 1.5;
  EXPECT_DOUBLE_EQ(UndisturbedEfficiency(stats).value_or(0), 1) << "no bound but the roof";
  stats.efficiency.reset();
  EXPECT_FALSE(UndisturbedEfficiency(stats).has_value());
}

// A probe whose clock advances by `step` whenever it is asked. With a step of 0, asking takes no
// time, so the timing asks about every sample alone, however busy the host is.
class ClockedProbe : public ConditionsReader {
 public:
  explicit ClockedProbe(std::chrono::nanoseconds step = {}) : step_(step) {}
  ConditionsReading Read() override { return {}; }
  std::chrono::steady_clock::time_point Now() override { return now_ += step_; }

 private:
  const std::chrono::nanoseconds step_;
  std::chrono::steady_clock::time_point now_{};
};

TEST(Timing, ATimeForWhichThreadsWaitedForOthersIsNoisy) {
  class Probe : public ClockedProbe {
   public:
    std::optional<double> WaitedSeconds() override { return 1; }
  };
  OddDevice device;
  Probe probe;
  const CaseOutcome outcome = RunOn(device, TimedCase(16), nullptr, &probe);
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_NEAR(outcome.bench->conditions->waiting_ratio.value_or(0), 1, 1e-9);
  EXPECT_TRUE(outcome.bench->noisy);
}

// One that waits before launches, and in the first, which are to warm up.
TEST(Timing, WhatThreadsWaitedElsewhereIsNotTheLaunches) {
  class Probe : public ClockedProbe {
   public:
    std::optional<double> WaitedSeconds() override {
      const int asked = asked_++;
      return asked < 4 || asked % 2 == 1 ? 1.0 : 0.0;
    }

   private:
    int asked_ = 0;  // before the timing, and before and after each sample that is asked about
  };
  OddDevice device;
  Probe probe;
  Case c = TimedCase(256);
  const CaseOutcome outcome = RunOn(device, c, nullptr, &probe);
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_EQ(outcome.bench->conditions->waiting_ratio.value_or(-1), 0);
}

// Asking costs more than a launch, so the timing asks about many samples at once.
TEST(Timing, WhatIsSlowToAnswerIsAskedSeldom) {
  class Probe : public ClockedProbe {
   public:
    using ClockedProbe::ClockedProbe;
    std::optional<double> WaitedSeconds() override { return ++asked, 0.0; }
    int asked = 0;
  };
  OddDevice device;
  Probe quick, slow(std::chrono::milliseconds(1));
  Case c = TimedCase(256);
  const CaseOutcome often = RunOn(device, c, nullptr, &quick);
  ASSERT_TRUE(often.bench.has_value());
  EXPECT_GE(quick.asked, 2 * often.bench->samples) << "before and after each sample";
  const CaseOutcome seldom = RunOn(device, c, nullptr, &slow);
  ASSERT_TRUE(seldom.bench.has_value());
  EXPECT_LT(slow.asked, seldom.bench->samples + 4);
  EXPECT_EQ(seldom.bench->conditions->waiting_ratio.value_or(-1), 0);
}

TEST(Timing, ACaseWithoutAClockHasNoTime) {
  for (const std::vector<double>& readings :
       {std::vector<double>{7.0}, std::vector<double>{std::nan("")}}) {
    OddDevice device;
    device.readings = readings;
    const CaseOutcome outcome = RunOn(device, TimedCase(4), nullptr, nullptr);
    EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "noisy");
    ASSERT_TRUE(outcome.bench.has_value());
    EXPECT_FALSE(outcome.bench->median_seconds.has_value());
    EXPECT_FALSE(outcome.bench->flops_per_second.has_value());
    EXPECT_THAT(outcome.implementation, HasSubstr("not timed"));
    // Whether it is right needs no clock.
    Case validated = TimedCase(16);
    validated.mode = Mode::kValidate;
    EXPECT_EQ(RunOn(device, validated, nullptr, nullptr).verdict, Verdict::kPassed);
  }
}

TEST(Timing, ConditionsAreAskedBetweenLaunches) {
  class Probe : public ConditionsReader {
   public:
    ConditionsReading Read() override {
      ConditionsReading reading;
      reading.clock_hertz = 1e9 * ++reads;
      reading.others_bytes = others;
      return reading;
    }
    int reads = 0;
    std::int64_t others = 0;
  } probe;
  OddDevice device;
  const CaseOutcome outcome = RunOn(device, TimedCase(16), nullptr, &probe);
  EXPECT_GE(probe.reads, 2) << "at the beginning and at the end";
  ASSERT_TRUE(outcome.bench->conditions.has_value());
  EXPECT_EQ(outcome.bench->conditions->min_clock_hertz, 2e9) << "what was before is no part";
  EXPECT_FALSE(RunOn(device, TimedCase(16), nullptr, nullptr).bench->conditions.has_value());
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);

  probe.others = 3 << 20;
  const CaseOutcome shared = RunOn(device, TimedCase(16), nullptr, &probe);
  EXPECT_EQ(shared.verdict, Verdict::kInconclusive) << "a time beside others is not its own";
  ASSERT_FALSE(shared.findings.empty());
  EXPECT_EQ(ReasonWord(shared.findings[0].reason), "noisy");
  EXPECT_THAT(shared.findings[0].message, HasSubstr("other processes held 3 MiB of the device"));
  EXPECT_TRUE(shared.bench->median_seconds.has_value()) << "and is told all the same";
  Case validated = TimedCase(16);
  validated.mode = Mode::kValidate;
  EXPECT_EQ(RunOn(device, validated, nullptr, &probe).verdict, Verdict::kPassed);
}

// A second for an operation; nothing of memory.
class SlowArithmetic : public Ceilings {
 public:
  bool suspect = false;
  bool stays = false;  // measuring again clears no doubt
  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    if (kind != CeilingKind::kFma) return std::nullopt;
    return Ceiling{.kind = kind, .dtype = dtype, .per_second = 1, .suspect = suspect};
  }
  void MeasureDoubtful() override { suspect = suspect && stays; }
};

TEST(Timing, OnlyACeilingThatIsKnownToBeTheDevicesBestAccusesAKernel) {
  const Case c = GemmCase(DType::kF32, 8, 8, 8);
  const Op& op = *FindOp(OpName(c.problem));
  const Plan plan = *op.MakePlan(c);
  BenchStats stats;
  stats.median_seconds = 1e-6;
  SlowArithmetic ceilings;
  DeviceInfo device;
  const auto least = [&] { return ImpossibleBelow(stats, plan, op, c.dtype, device, &ceilings); };
  const double limit = least();
  EXPECT_GT(limit, 1);
  EXPECT_LT(limit, plan.flops);

  ceilings.suspect = true;
  EXPECT_EQ(least(), limit) << "it was measured again";
  ceilings.suspect = ceilings.stays = true;
  EXPECT_EQ(least(), 0);

  ceilings.suspect = false;
  device.properties["matrix_unit"] = "amx";
  EXPECT_EQ(least(), 0) << "no ceiling of a CPU includes its matrix units";
}

// A right gemm. Its code is not trusted.
class StrangersGemm : public Kernel {
 public:
  StrangersGemm(const Case&, const Plan&) {}
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const TensorView &a = inputs[0], &b = inputs[1];
    const Extents& d = output.extents;
    for (std::int64_t i = 0; i < d.rows; ++i) {
      for (std::int64_t j = 0; j < d.cols; ++j) {
        float sum = 0;
        for (std::int64_t q = 0; q < a.extents.cols; ++q) {
          sum += a.as<float>()[i * a.extents.ld + q] * b.as<float>()[q * b.extents.ld + j];
        }
        output.as<float>()[i * d.ld + j] = sum;
      }
    }
    return absl::OkStatus();
  }
  bool trusted() const override { return false; }
};

TEST(Timing, ATimeBelowWhatTheCeilingAllowsIsNoPass) {
  SteadyDevice device;
  SlowArithmetic ceilings;
  const CaseOutcome outcome =
      RunKernel<StrangersGemm>(device, TimedCase(16), &ceilings, /*conditions=*/nullptr);
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(outcome.findings[0].reason, Reason::kImpossible) << outcome.findings[0].message;
  EXPECT_THAT(outcome.findings[0].message, HasSubstr("by the measured arithmetic of this device"));
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_TRUE(outcome.bench->median_seconds.has_value()) << "the time is told all the same";
  // Without that ceiling the same time is a pass.
  EXPECT_EQ(RunKernel<StrangersGemm>(device, TimedCase(16), nullptr, nullptr).verdict,
            Verdict::kPassed);
}

}  // namespace
}  // namespace assay
