// Sampling, the roofline's arithmetic, and the CPU's measured ceilings.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/bench/ceilings.h"
#include "kernels/bench/fastest_run.h"
#include "kernels/bench/roofline.h"
#include "kernels/bench/sample_waits.h"
#include "kernels/bench/sampler.h"
#include "kernels/bench/streams_cpu.h"
#include "kernels/runtime/device.h"

namespace assay {
namespace {

// Ceilings as a test wants them.
class FixedCeilings : public Ceilings {
 public:
  FixedCeilings(std::optional<double> flops, std::optional<double> bytes)
      : flops_(flops), bytes_(bytes) {}
  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    if (kind == CeilingKind::kFma && flops_) return Ceiling{kind, dtype, *flops_, noise};
    if (kind == CeilingKind::kCopy && bytes_) return Ceiling{kind, dtype, *bytes_, noise};
    if (kind == CeilingKind::kRead && read) return Ceiling{kind, dtype, *read, noise};
    return std::nullopt;
  }
  void Doubt(CeilingKind kind, DType dtype) override { doubted.emplace_back(kind, dtype); }
  std::int64_t CacheBytes() const override { return cache_bytes; }

  std::int64_t cache_bytes = 0;
  std::optional<double> noise;
  std::optional<double> read;
  std::vector<std::pair<CeilingKind, DType>> doubted;

 private:
  std::optional<double> flops_;
  std::optional<double> bytes_;
};

TEST(Sampler, SteadyLaunchesEndAtTheLeastNumberOfSamples) {
  int launches = 0;
  SamplerOptions options;
  options.min_seconds = 0;
  const LaunchTimes times = TimeLaunches(options, [&](int n) -> std::optional<double> {
    launches += n;
    return n * 1e-3;
  });
  EXPECT_EQ(times.seconds.size(), 10u);
  EXPECT_EQ(launches, options.warm_up + options.min_samples);
  EXPECT_TRUE(times.settled);
  EXPECT_FALSE(times.clock_failed);
  // But not within one moment, where more is affordable.
  double spent = 0;
  const auto steady = [&](int) -> std::optional<double> { return spent += 1e-3, 1e-3; };
  EXPECT_TRUE(TimeLaunches(SamplerOptions{}, steady).settled);
  EXPECT_GE(spent, SamplerOptions{}.min_seconds);
  EXPECT_LT(spent, SamplerOptions{}.limit_seconds);
}

TEST(Sampler, NoisyLaunchesGoOnToTheLimitAndSlowOnesAreStillSampled) {
  int i = 0;
  const LaunchTimes noisy = TimeLaunches(
      SamplerOptions{}, [&](int) -> std::optional<double> { return ++i % 2 == 0 ? 1e-3 : 3e-3; });
  EXPECT_GT(noisy.seconds.size(), 100u);
  EXPECT_FALSE(noisy.settled) << "and that is said";
  double spent = 0;
  for (double s : noisy.seconds) spent += s;
  EXPECT_NEAR(spent, SamplerOptions{}.limit_seconds, 0.4 * SamplerOptions{}.limit_seconds);
  // Enough of them give a median that is settled in its moment: the noise tells of others.
  int launches = 0;
  spent = 0;
  const LaunchTimes disturbed = TimeLaunches(SamplerOptions{}, [&](int) -> std::optional<double> {
    const double seconds = ++launches % 5 == 0 ? 1.5e-3 : 1e-3;
    return spent += seconds, seconds;
  });
  EXPECT_TRUE(disturbed.settled);
  EXPECT_GT(spent, SamplerOptions{}.limit_seconds);
  // A launch beyond every limit is one sample, never none.
  const LaunchTimes slow =
      TimeLaunches(SamplerOptions{}, [](int) -> std::optional<double> { return 100.0; });
  EXPECT_EQ(slow.seconds.size(), 1u);
  EXPECT_FALSE(slow.settled);
}

// The hard limit comes before the tenth sample, and what there is agrees or does not.
TEST(Sampler, LongLaunchesThatAgreeAreSettled) {
  const auto settled = [](double seconds, double spread) {
    int i = 0;
    return TimeLaunches(SamplerOptions{}, [&](int) -> std::optional<double> {
      return seconds * (1 + spread * (++i % 3));
    });
  };
  const LaunchTimes steady = settled(2, 1e-4);
  EXPECT_EQ(steady.seconds.size(), 8u);
  EXPECT_TRUE(steady.settled);
  EXPECT_FALSE(settled(2, 0.1).settled);
  EXPECT_FALSE(settled(5, 1e-4).settled) << "four may agree by chance";
}

TEST(Sampler, AFailedLaunchEndsIt) {
  int i = 0;
  const LaunchTimes times = TimeLaunches(SamplerOptions{}, [&](int) -> std::optional<double> {
    if (++i > 5) return std::nullopt;
    return 1e-3;
  });
  EXPECT_EQ(times.seconds.size(), 3u) << "two warm-ups, three samples";
}

TEST(Sampler, ShortLaunchesAreTimedTogether) {
  SamplerOptions options;
  options.batch_seconds = 50e-6;
  options.min_seconds = 0;
  const LaunchTimes times =
      TimeLaunches(options, [](int n) -> std::optional<double> { return n * 1e-6; });
  EXPECT_EQ(times.launches_per_sample, 64);
  ASSERT_EQ(times.seconds.size(), 10u);
  for (const double s : times.seconds) EXPECT_DOUBLE_EQ(s, 1e-6) << "of one launch";
}

// One that ticks every 10 us says 0 of a launch of 1 us.
TEST(Sampler, ACoarseClockNeverGivesZero) {
  int ticks = 0;
  const LaunchTimes times = TimeLaunches(SamplerOptions{}, [&](int n) -> std::optional<double> {
    const int before = ticks;
    ticks += n;
    return (ticks / 10 - before / 10) * 1e-5;
  });
  EXPECT_GE(times.launches_per_sample, 8);
  EXPECT_GE(times.seconds.size(), 10u);
  for (const double s : times.seconds) EXPECT_GT(s, 0);
}

TEST(Sampler, AClockThatFailsGivesNoTimeAndSaysSo) {
  for (const double reading : {0.0, -1e-3, std::nan(""), HUGE_VAL}) {
    int calls = 0;
    const LaunchTimes times = TimeLaunches(SamplerOptions{}, [&](int) -> std::optional<double> {
      ++calls;
      return reading;
    });
    EXPECT_TRUE(times.seconds.empty()) << reading;
    EXPECT_TRUE(times.clock_failed) << reading;
    EXPECT_LT(calls, 100) << reading;
    Plan plan;
    plan.flops = 1;
    const BenchStats stats = MakeBenchStats(plan, DType::kF32, times, nullptr);
    EXPECT_FALSE(stats.median_seconds || stats.flops_per_second || stats.noise);
    EXPECT_TRUE(stats.clock_failed);
  }
  // Nor does it wait for hours for launches to add up.
  int launches = 0;
  const LaunchTimes still = TimeLaunches(SamplerOptions{}, [&](int n) -> std::optional<double> {
    launches += n;
    std::this_thread::sleep_for(std::chrono::milliseconds(n));
    return 0;
  });
  EXPECT_TRUE(still.clock_failed);
  EXPECT_LT(launches, 1000);
  // One jump backwards among good readings is no sample, and costs none.
  int i = 0;
  SamplerOptions brief;
  brief.min_seconds = 0;
  const LaunchTimes jumped =
      TimeLaunches(brief, [&](int) -> std::optional<double> { return ++i == 5 ? -3.0 : 1e-3; });
  EXPECT_EQ(jumped.seconds, std::vector<double>(10, 1e-3));
  EXPECT_FALSE(jumped.clock_failed);
  // The single launch of a validation, too.
  const BenchStats one = MakeBenchStats(Plan{}, DType::kF32, LaunchTimes{{-1e-3}}, nullptr);
  EXPECT_FALSE(one.median_seconds.has_value());
  EXPECT_EQ(one.samples, 0);
}

TEST(Conditions, AreTheWorstOfAllReadings) {
  ConditionsReading cool, hot;
  cool.clock_hertz = 3e9;
  cool.temperature_celsius = 40;
  cool.power_watts = 100;
  hot.clock_hertz = 2e9;
  hot.temperature_celsius = 90;
  hot.throttle_reasons = {"thermal"};
  const BenchConditions all = Summarise({cool, hot, cool});
  EXPECT_EQ(all.min_clock_hertz, 2e9);
  EXPECT_EQ(all.median_clock_hertz, 3e9);
  EXPECT_EQ(all.max_temperature_celsius, 90);
  EXPECT_EQ(all.mean_power_watts, 100);
  EXPECT_EQ(all.throttle_reasons, std::set<std::string>{"thermal"});
  EXPECT_FALSE(all.others_bytes.has_value());
  EXPECT_EQ(Summarise({}), BenchConditions{}) << "what was not told is absent";
}

TEST(SampleWaits, OfFewSamplesAreNoneOfTheMedians) {
  SampleWaits waits;
  EXPECT_EQ(waits.ShareOfMedian(5), 0);
  for (int i = 0; i < 10; ++i) {
    waits.Add(1e-3);
    waits.Waited(i < 4 ? 0.9e-3 : 0);
  }
  EXPECT_DOUBLE_EQ(waits.ShareOfMedian(10), 0);
  EXPECT_DOUBLE_EQ(waits.ShareOfMedian(6), 0) << "the last";
  for (int i = 0; i < 10; ++i) {
    waits.Add(1e-3);
    waits.Waited(0.25e-3);
  }
  EXPECT_NEAR(waits.ShareOfMedian(10), 0.25, 1e-9);
  EXPECT_NEAR(waits.ShareOfMedian(100), 0.25, 1e-9) << "of 16 of 20";
}

TEST(SampleWaits, AreSharedBySamplesThatWereTakenMeanwhile) {
  SampleWaits waits;
  waits.Waited(7);  // before the first
  for (const double seconds : {1e-3, 2e-3, 1e-3}) waits.Add(seconds);
  EXPECT_TRUE(waits.open());
  waits.Waited(1e-3);
  EXPECT_FALSE(waits.open());
  EXPECT_NEAR(waits.ShareOfMedian(3), 0.5, 1e-9) << "the shorter two may have had it all";
  waits.Waited(1);
  waits.Add(-1);
  waits.Add(std::nan(""));
  waits.Waited(1);
  EXPECT_NEAR(waits.ShareOfMedian(3), 0.5, 1e-9) << "no samples";
  waits.Stolen(0.5e-3);
  EXPECT_NEAR(waits.ShareOfMedian(3), 0.75, 1e-9);
  waits.Stolen(1);
  EXPECT_NEAR(waits.ShareOfMedian(3), 0.75, 1e-9) << "nothing was timed since";
  for (int i = 0; i < 3; ++i) waits.Add(1e-3);
  waits.Waited(1);
  EXPECT_NEAR(waits.ShareOfMedian(3), 1, 1e-9) << "several threads at once";
}

// Of six samples of 1 that waited 0.5 and four of 0.5 that did not, together.
TEST(SampleWaits, OfUnlikeSamplesAreNoLessThanTheyWere) {
  SampleWaits waits;
  for (int i = 0; i < 10; ++i) waits.Add(i < 6 ? 1 : 0.5);
  waits.Waited(3);
  EXPECT_GE(waits.ShareOfMedian(10), 0.5);
  EXPECT_LE(waits.ShareOfMedian(10), 1);
}

TEST(SampleWaits, AreStolenFromGroupsByTheirLength) {
  SampleWaits waits;
  for (const double seconds : {1e-3, 1e-3, 2e-3}) {
    waits.Add(seconds);
    waits.Waited(0);
  }
  EXPECT_EQ(waits.ShareOfMedian(3), 0);
  waits.Stolen(0.4e-3);
  EXPECT_NEAR(waits.ShareOfMedian(3), 0.1, 1e-9);
}

TEST(Sampler, QuantilesAreInterpolated) {
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 3, 2, 5}, 0.5), 3);
  EXPECT_DOUBLE_EQ(Quantile({1, 2}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(Quantile({7}, 0.9), 7);
  EXPECT_FALSE(Noise({1.0}).has_value());
  EXPECT_DOUBLE_EQ(*Noise({1.0, 1.0, 1.0}), 0.0);
}

TEST(Roofline, TheLargerBoundNamesTheRoof) {
  Plan plan;
  plan.flops = 2e9;
  plan.bytes = 1e9;
  const LaunchTimes times{{0.04, 0.04, 0.04}};
  FixedCeilings compute_bound(100e9, 100e9);  // 20 ms of arithmetic, 10 ms of memory
  const BenchStats a = MakeBenchStats(plan, DType::kF32, times, &compute_bound);
  EXPECT_EQ(a.roof, "compute");
  EXPECT_DOUBLE_EQ(*a.efficiency, 0.5);
  EXPECT_DOUBLE_EQ(*a.flops_per_second, 50e9);
  EXPECT_DOUBLE_EQ(*a.bytes_per_second, 25e9);
  FixedCeilings memory_bound(1000e9, 50e9);  // 2 ms and 20 ms
  const BenchStats b = MakeBenchStats(plan, DType::kF32, times, &memory_bound);
  EXPECT_EQ(b.roof, "memory");
  EXPECT_DOUBLE_EQ(*b.efficiency, 0.5);
}

// 150 % of a memory that was not touched is no efficiency.
TEST(Roofline, DataThatFitTheCacheHaveNoMemoryRoof) {
  class Cached : public FixedCeilings {
   public:
    using FixedCeilings::FixedCeilings;
    std::int64_t CacheBytes() const override { return 1'000'000'000; }
  };
  Plan plan;
  plan.flops = 2e9;
  plan.bytes = 1e9;
  const LaunchTimes times{{0.01, 0.01, 0.01}};
  Cached memory_bound(1000e9, 50e9);  // 2 ms and 20 ms
  const BenchStats fits = MakeBenchStats(plan, DType::kF32, times, &memory_bound);
  EXPECT_EQ(fits.roof, "cache");
  EXPECT_FALSE(fits.efficiency.has_value());
  EXPECT_DOUBLE_EQ(*fits.bytes_per_second, 100e9);
  EXPECT_DOUBLE_EQ(*fits.ceiling_bytes_per_second, 50e9);
  // Nor does the cache matter where each launch found its operands in memory.
  LaunchTimes cold = times;
  cold.from_memory = true;
  const BenchStats from_memory = MakeBenchStats(plan, DType::kF32, cold, &memory_bound);
  EXPECT_EQ(from_memory.roof, "memory");
  EXPECT_DOUBLE_EQ(*from_memory.efficiency, 2.0);
  plan.bytes = 1'000'000'001;
  EXPECT_EQ(MakeBenchStats(plan, DType::kF32, times, &memory_bound).roof, "memory");
  // Arithmetic is a roof wherever the data are.
  plan.bytes = 1e9;
  Cached compute_bound(100e9, 100e9);
  const BenchStats computes = MakeBenchStats(plan, DType::kF32, times, &compute_bound);
  EXPECT_EQ(computes.roof, "compute");
  EXPECT_DOUBLE_EQ(*computes.efficiency, 2.0);
}

// A ceiling that a kernel is beyond by more than the noise was measured too low.
TEST(Roofline, ACeilingThatIsExceededIsDoubted) {
  Plan plan;
  plan.flops = 1e9;
  plan.bytes = 1;
  std::int64_t cache_bytes = 0;
  const auto doubted = [&](double seconds, std::optional<double> noise, bool from_memory) {
    FixedCeilings ceilings(100e9, 50e9);  // 10 ms of arithmetic
    ceilings.noise = noise;
    ceilings.cache_bytes = cache_bytes;
    LaunchTimes times{{seconds}};
    times.from_memory = from_memory;
    MakeBenchStats(plan, DType::kF32, times, &ceilings);
    return ceilings.doubted;
  };
  using Doubted = std::vector<std::pair<CeilingKind, DType>>;
  EXPECT_EQ(doubted(0.0099, std::nullopt, false), Doubted{}) << "101 %";
  EXPECT_EQ(doubted(0.0097, std::nullopt, false), (Doubted{{CeilingKind::kFma, DType::kF32}}));
  EXPECT_EQ(doubted(0.0097, 0.05, false), Doubted{}) << "within the noise";
  EXPECT_EQ(doubted(0.0090, 0.05, false), (Doubted{{CeilingKind::kFma, DType::kF32}}));
  plan.flops = 1;
  plan.bytes = 5e8;  // 10 ms of memory
  EXPECT_EQ(doubted(0.0090, 0, true), (Doubted{{CeilingKind::kCopy, DType::kUnspecified}}));
  EXPECT_EQ(doubted(0.0090, 0, false), Doubted{}) << "a cache may have held some of it";
  cache_bytes = 100'000'000;
  EXPECT_EQ(doubted(0.0090, 0, true), Doubted{}) << "its last writes may still be in the cache";
  EXPECT_EQ(doubted(0.0077, 0, true), (Doubted{{CeilingKind::kCopy, DType::kUnspecified}}));
  cache_bytes = 500'000'000;
  EXPECT_EQ(doubted(0.0010, 0, true), Doubted{}) << "none of it need come from memory";
}

// Memory that is read is faster than memory that is copied, on a healthy device.
TEST(Roofline, TheCopyIsNotDoubtedForAKernelThatReads) {
  Plan plan;
  plan.bytes = 5e8;  // 10 ms of a copy
  const auto doubts = [&plan](double seconds, double read, std::int64_t written) {
    plan.output = {"y", DType::kF32, Extents::Dense(1, 1, written / 4), {written / 4}, {}};
    FixedCeilings ceilings(100e9, 50e9);
    ceilings.read = read;
    LaunchTimes times{{seconds}};
    times.from_memory = true;
    MakeBenchStats(plan, DType::kF32, times, &ceilings);
    return !ceilings.doubted.empty();
  };
  EXPECT_FALSE(doubts(0.0090, 60e9, 4)) << "as fast as reads";
  EXPECT_TRUE(doubts(0.0080, 60e9, 4)) << "faster than reads, too";
  EXPECT_TRUE(doubts(0.0090, 60e9, 250'000'000)) << "it writes half";
  EXPECT_TRUE(doubts(0.0060, 100e9, 4)) << "twice a copy: that was measured too low";
}

TEST(FastestRun, IsTheFastestAndSaysHowFarTheOthersWere) {
  int runs = 0;
  const auto steady = [&]() -> std::optional<double> { return ++runs, 2.0; };
  const std::optional<FastestRun> same = FindFastestRun({}, steady);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->seconds, 2);
  EXPECT_EQ(same->noise, 0);
  EXPECT_EQ(runs, 5) << "the least";
  // Where others take the device's time, it goes on until two agree, but not for ever.
  runs = 0;
  const auto disturbed = [&]() -> std::optional<double> { return ++runs < 8 ? 10 - runs : 1.99; };
  EXPECT_EQ(FindFastestRun({}, disturbed)->seconds, 1.99);
  EXPECT_EQ(runs, 9);
  runs = 0;
  const auto falling = [&]() -> std::optional<double> { return 100 - 5 * ++runs; };
  const std::optional<FastestRun> noisy = FindFastestRun({}, falling);
  EXPECT_EQ(runs, 15);
  EXPECT_EQ(noisy->seconds, 25);
  EXPECT_NEAR(*noisy->noise, 28.0 / 60, 1e-9);
  // A clock that stands still is no run, a launch that fails is the end.
  EXPECT_FALSE(FindFastestRun({}, []() -> std::optional<double> { return 0.0; }));
  runs = 0;
  EXPECT_FALSE(FindFastestRun({}, [&]() -> std::optional<double> {
    if (++runs == 3) return std::nullopt;
    return 1.0;
  }));
}

TEST(Roofline, WithoutACeilingThereIsNoEfficiency) {
  Plan plan;
  plan.flops = 2e9;
  plan.bytes = 1e9;
  const LaunchTimes times{{0.04, 0.04}};
  FixedCeilings no_arithmetic(std::nullopt, 50e9);
  EXPECT_FALSE(MakeBenchStats(plan, DType::kF16, times, &no_arithmetic).efficiency.has_value());
  const BenchStats none = MakeBenchStats(plan, DType::kF32, times, nullptr);
  EXPECT_FALSE(none.efficiency.has_value());
  EXPECT_TRUE(none.median_seconds.has_value());
  EXPECT_FALSE(MakeBenchStats(plan, DType::kF32, LaunchTimes{}, nullptr).median_seconds);
}

// Streams do what they are counted for.
TEST(Streams, MoveEveryByte) {
  constexpr std::size_t kWords = 4096 / 8 + 32;  // not a power of two
  alignas(64) static double a[kWords], b[kWords], to[kWords];
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kWords; ++i) {
    a[i] = static_cast<double>(i);
    b[i] = static_cast<double>(i % 7);
    sum += std::bit_cast<std::uint64_t>(a[i]);
  }
  constexpr std::int64_t kBytes = kWords * 8;
  internal::StreamTriad(a, b, 3.0, to, kBytes);
  for (std::size_t i = 0; i < kWords; ++i) ASSERT_EQ(to[i], a[i] + 3 * b[i]) << i;
  internal::StreamCopy(b, to, kBytes);
  for (std::size_t i = 0; i < kWords; ++i) ASSERT_EQ(to[i], b[i]) << i;
  EXPECT_EQ(internal::StreamRead(a, kBytes), sum);
}

TEST(Ceilings, TheFasterWayOfAFormatIsItsCeiling) {
  class Both : public Ceilings {
   public:
    std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
      if (dtype == DType::kF16) return Ceiling{kind, dtype, kind == CeilingKind::kMatrix ? 8.0 : 1};
      if (dtype == DType::kF32 && kind == CeilingKind::kFma) return Ceiling{kind, dtype, 2};
      return std::nullopt;
    }
  } both;
  EXPECT_EQ(both.FlopsPerSecond(DType::kF16), 8);
  EXPECT_EQ(both.FlopsPerSecond(DType::kF32), 2);
  EXPECT_FALSE(both.FlopsPerSecond(DType::kF64).has_value());
  EXPECT_FALSE(both.BytesPerSecond().has_value());
  EXPECT_EQ(both.All().size(), 3u);
}

// What a machine reaches depends on who else is at work on it: how the figures relate to one
// another is for people to see, in the properties, and no assertion.
TEST(Ceilings, AreMeasuredOnceAndKept) {
  const std::unique_ptr<Device> device = MakeCpuDevice(0, ArenaOptions{});
  const std::unique_ptr<Ceilings> ceilings = MakeCpuCeilings(*device);
  const std::optional<double> f64 = ceilings->FlopsPerSecond(DType::kF64);
  const std::optional<double> f32 = ceilings->FlopsPerSecond(DType::kF32);
  const std::optional<double> bytes = ceilings->BytesPerSecond();
  ASSERT_TRUE(f64 && f32 && bytes);
  // A slip in the unit or in the count of lanes is orders of magnitude.
  EXPECT_GT(*f64, 1e6);
  EXPECT_LT(*f64, 1e15);
  EXPECT_GT(*f32, 1e6);
  EXPECT_LT(*f32, 1e15);
  EXPECT_GT(*bytes, 1e6);
  EXPECT_LT(*bytes, 1e13);
  const std::vector<Ceiling> all = ceilings->All();
  ASSERT_GE(all.size(), 5u);
  EXPECT_EQ(all[0].kind, CeilingKind::kCopy);
  EXPECT_EQ(all[0].dtype, DType::kUnspecified);
  EXPECT_EQ(all[0].per_second, *bytes);
  EXPECT_EQ(all[1].kind, CeilingKind::kTriad);
  EXPECT_EQ(all[2].kind, CeilingKind::kRead);
  for (const Ceiling& c : all) {
    EXPECT_TRUE(c.noise.has_value());
    EXPECT_FALSE(c.suspect);
    EXPECT_GT(c.per_second, 1e6);
    EXPECT_LT(c.per_second, 1e15);
    if (!IsMemory(c.kind)) {
      EXPECT_EQ(c.kind, CeilingKind::kFma);
      EXPECT_EQ(c.per_second, ceilings->FlopsPerSecond(c.dtype));
    }
  }
  const std::optional<double> i8 = ceilings->FlopsPerSecond(DType::kI8);
  for (DType t : {DType::kTF32, DType::kF16, DType::kE4M3FN, DType::kE5M2FNUZ, DType::kE2M1}) {
    EXPECT_FALSE(ceilings->FlopsPerSecond(t).has_value()) << Name(t);
  }
  EXPECT_EQ(ceilings->FlopsPerSecond(DType::kF64), f64) << "kept";
  const std::optional<Ceiling> before = ceilings->Find(CeilingKind::kFma, DType::kF64);
  ceilings->Forget(CeilingKind::kFma, DType::kF64);
  EXPECT_NE(ceilings->Find(CeilingKind::kFma, DType::kF64), before) << "measured anew";
  EXPECT_EQ(ceilings->BytesPerSecond(), bytes);
  RecordProperty("f32_gflops", std::to_string(*f32 * 1e-9));
  RecordProperty("gigabytes_per_second", std::to_string(*bytes * 1e-9));
  const std::optional<double> bf16 = ceilings->FlopsPerSecond(DType::kBF16);
  RecordProperty("bf16_gflops", bf16 ? std::to_string(*bf16 * 1e-9) : "none");
  RecordProperty("i8_gops", i8 ? std::to_string(*i8 * 1e-9) : "none");
  RecordProperty("f64_gflops", std::to_string(*f64 * 1e-9));
}

}  // namespace
}  // namespace assay
