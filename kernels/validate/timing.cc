#include "kernels/validate/timing.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "kernels/bench/sample_waits.h"
#include "kernels/runtime/replay.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// A case of less than both takes some microseconds at most.
constexpr double kTinyBytes = 64 << 10;
constexpr double kTinyFlops = 1e6;
// So long that a clock's 20 to 40 ns are less than a thousandth.
constexpr double kBatchSeconds = 50e-6;
// So long that the one start of a graph, some microseconds, is less than a hundredth.
constexpr double kReplaySeconds = 500e-6;
// Filling and judging take far longer than a launch of a tiny case.
constexpr int kMostAround = 600;
constexpr int kLeastAround = 24;
// If these were too few on data that the kernel has not seen, further launches follow.
constexpr int kMostFurther = 100;
constexpr double kFurtherSeconds = 15;
// A kernel may be so many times faster than the ceilings.
constexpr double kBeyondRoof = 1.5;
constexpr double kBeyondRoofByTransform = 6;
constexpr double kShortLaunches = 10;  // times the host's part
// Between looks at the device: often enough to see a throttled second, too seldom to
// disturb the launches.
constexpr std::chrono::milliseconds kLooksApart(50);
// Between questions after waits, in times that one takes: after each sample, unless it is short.
constexpr int kWaitsApart = 20;

// Whether the host's part of a launch is a good share of it. The first launches of a kernel
// pay for what its library puts off.
bool IsShort(Launcher& launcher) {
  constexpr int kLaunches = 3;
  bool from_memory = false;
  double least = 0, host = 0;
  for (int i = 0; i < kLaunches; ++i) {
    const absl::StatusOr<double> seconds = launcher.LaunchTimed(1, from_memory);
    if (!seconds.ok()) return false;  // which the timing says
    if (i == 0 || *seconds < least) least = *seconds;
    const double enqueued = launcher.enqueue_seconds();
    if (i == 0 || enqueued < host) host = enqueued;
  }
  return least < kShortLaunches * host;
}

// What a device does between the samples of a timing.
class Meanwhile {
 public:
  explicit Meanwhile(ConditionsReader& reader) : reader_(reader) {
    // What was before is no part of it.
    reader_.Read();
    reader_.WaitedSeconds();
    next_look_ = reader_.Now() + kLooksApart;
  }

  // Just before launches that are timed: what threads waited until then is not theirs.
  void Ready() {
    const Clock::time_point now = reader_.Now();
    alone_ = now >= next_wait_;
    if (!alone_) return;
    Wait();
    asking_ = reader_.Now() - now;
  }

  // Just after.
  void Sampled(double seconds) {
    waits_.Add(seconds);
    const Clock::time_point now = reader_.Now();
    if (alone_) {
      Wait();
      const Clock::time_point after = reader_.Now();
      next_wait_ = after + kWaitsApart * (asking_ + (after - now));
    }
    if (now >= next_look_) {
      Look();
      next_look_ = now + kLooksApart;
    }
  }

  // Of the last `samples` that were told.
  BenchConditions Conditions(std::size_t samples) {
    Wait();
    Look();
    BenchConditions all = Summarise(readings_);
    if (known_) all.waiting_ratio = waits_.ShareOfMedian(samples);
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // What the samples waited that nothing is told of yet.
  void Wait() {
    const std::optional<double> seconds = reader_.WaitedSeconds();
    known_ = known_ || seconds;
    waits_.Waited(seconds.value_or(0));
  }
  void Look() {
    readings_.push_back(reader_.Read());
    const std::optional<double>& stolen = readings_.back().stolen_seconds;
    known_ = known_ || stolen;
    waits_.Stolen(stolen.value_or(0));
  }

  ConditionsReader& reader_;
  std::vector<ConditionsReading> readings_;
  SampleWaits waits_;
  bool known_ = false;  // something of waits
  bool alone_ = false;  // of the sample that comes, or came last, its own wait is told
  Clock::duration asking_{};
  Clock::time_point next_look_, next_wait_;
};

void LaunchUntilEnough(const TimedLaunches& around,
                       absl::FunctionRef<std::optional<double>(int)> sample) {
  double spent = 0;
  for (int i = 0; i < kMostFurther && spent < kFurtherSeconds && !around.Enough(); ++i) {
    const std::optional<double> seconds = sample(1);
    if (!seconds) return;
    spent += *seconds;
  }
}

}  // namespace

BenchTiming TimeCase(Launcher& launcher, const Plan& plan, Device& device, Ceilings* ceilings,
                     ConditionsReader* conditions, TimedLaunches* around) {
  BenchTiming timing;
  const bool tiny = plan.bytes < kTinyBytes && plan.flops < kTinyFlops;
  const bool single = around != nullptr && around->Single();
  SamplerOptions options;
  if (tiny && !single) options.batch_seconds = kBatchSeconds;
  if (single) {
    options.min_samples = kLeastAround;
    options.max_samples = kMostAround;
  }
  // What is far larger than the last cache comes from memory anyway.
  const double cache = ceilings == nullptr ? 0 : static_cast<double>(ceilings->CacheBytes());
  const bool larger = cache > 0 && plan.bytes > 2 * cache;
  bool from_memory = !tiny && !larger;

  bool replayed =
      tiny && !single && dynamic_cast<LaunchRecorder*>(&device) != nullptr && IsShort(launcher);
  if (replayed && absl::IsUnimplemented(launcher.LaunchReplayed(1).status())) replayed = false;
  if (replayed) options.batch_seconds = kReplaySeconds;

  std::optional<Meanwhile> meanwhile;
  if (conditions != nullptr) meanwhile.emplace(*conditions);
  const auto sample = [&](int launches) -> std::optional<double> {
    const auto ready = [&] {
      if (meanwhile) meanwhile->Ready();
    };
    if (around != nullptr) {
      timing.failed = around->Before();
      if (!timing.failed.ok()) return std::nullopt;
    }
    absl::StatusOr<double> seconds = replayed ? launcher.LaunchReplayed(launches, ready)
                                              : launcher.LaunchTimed(launches, from_memory, ready);
    if (seconds.ok()) {
      if (meanwhile) meanwhile->Sampled(*seconds);
      if (around != nullptr) timing.failed = around->After(*seconds);
      if (!timing.failed.ok()) return std::nullopt;
      return *seconds;
    }
    timing.failed = seconds.status();
    return std::nullopt;
  };
  timing.times = TimeLaunches(options, sample);
  timing.times.replayed = replayed;
  // Behind one another, all but the first of a sample find what the one before left.
  timing.times.from_memory = larger || (from_memory && timing.times.launches_per_sample == 1);
  if (meanwhile) timing.conditions = meanwhile->Conditions(timing.times.seconds.size());
  if (around != nullptr && timing.failed.ok() && !timing.times.clock_failed) {
    LaunchUntilEnough(*around, sample);
  }
  return timing;
}

double ImpossibleBelow(const BenchStats& stats, const Plan& plan, const Op& op, DType input,
                       const DeviceInfo& device, Ceilings* ceilings) {
  if (ceilings == nullptr || !plan.work_known) return 0;
  std::optional<Ceiling> arithmetic, memory;
  if (plan.flops > 0 && !device.properties.contains("matrix_unit")) {
    arithmetic = ceilings->Compute(input);
  }
  const auto cache = static_cast<double>(ceilings->CacheBytes());
  // What a cache may hold of the operands need not come from memory.
  if (cache > 0 && plan.bytes > 2 * cache) memory = ceilings->Memory();
  // A transform such as Winograd's needs fewer operations than are counted.
  const bool transforms = op.traits().transforms_divide || Transforms(plan);
  const auto least = [&] {
    double seconds = 0;
    if (arithmetic) {
      seconds =
          plan.flops / arithmetic->per_second / (transforms ? kBeyondRoofByTransform : kBeyondRoof);
    }
    if (memory) {
      seconds = std::max(seconds, (plan.bytes - cache) / memory->per_second / kBeyondRoof);
    }
    return seconds;
  };
  const auto suspect = [](const std::optional<Ceiling>& c) { return c && c->suspect; };
  const auto below = [&] { return stats.median_seconds && *stats.median_seconds < least(); };
  // Memory that is only read may be faster than memory that is copied.
  const auto count_reads = [&] {
    const auto read = ceilings->Find(CeilingKind::kRead, DType::kUnspecified);
    if (read && read->per_second > memory->per_second) memory = read;
  };
  if (below() && memory) count_reads();
  if (!below() || !(suspect(arithmetic) || suspect(memory))) return least();
  // This kernel itself may be the reason for the doubt.
  ceilings->MeasureDoubtful();
  if (arithmetic) arithmetic = ceilings->Compute(input);
  if (memory) memory = ceilings->Memory();
  if (suspect(arithmetic)) arithmetic.reset();
  if (suspect(memory)) memory.reset();
  if (memory) count_reads();
  return least();
}

double WaitingRatio(const BenchStats& stats) {
  return stats.conditions ? stats.conditions->waiting_ratio.value_or(0) : 0;
}

std::optional<double> UndisturbedEfficiency(const BenchStats& stats) {
  if (!stats.noisy || !stats.efficiency) return std::nullopt;
  double left = std::max(1 - WaitingRatio(stats), 0.0);
  if (stats.p10_seconds) left = std::min(left, *stats.p10_seconds / *stats.median_seconds);
  return left > *stats.efficiency ? *stats.efficiency / left : 1;  // no more than the roof
}

std::string DescribeTiming(const BenchStats& stats) {
  if (stats.clock_failed) return "not timed: the clock stood still or went backwards";
  const int launches = stats.launches_per_sample;
  std::string text = "timed";
  if (launches > 1 || stats.replayed) {
    Append(&text, " ", launches, launches == 1 ? " launch" : " launches",
           stats.replayed ? " as one graph" : " at once");
  }
  Append(&text, stats.from_memory ? " from memory" : " with operands in cache");
  return text;
}

}  // namespace assay::kernels
