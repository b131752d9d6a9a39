// Sampling, the roofline's arithmetic, and the CPU's measured ceilings.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/bench/ceilings.h"
#include "kernels/bench/roofline.h"
#include "kernels/bench/sampler.h"
#include "kernels/runtime/device.h"

namespace assay {
namespace {

// Ceilings as a test wants them.
class FixedCeilings : public Ceilings {
 public:
  FixedCeilings(std::optional<double> flops, std::optional<double> bytes)
      : flops_(flops), bytes_(bytes) {}
  std::optional<double> FlopsPerSecond(DType) override { return flops_; }
  std::optional<double> BytesPerSecond() override { return bytes_; }

 private:
  std::optional<double> flops_;
  std::optional<double> bytes_;
};

TEST(Sampler, SteadyLaunchesEndAtTheLeastNumberOfSamples) {
  int launches = 0;
  const SamplerOptions options;
  const LaunchTimes times = TimeLaunches(options, [&]() -> std::optional<double> {
    ++launches;
    return 1e-3;
  });
  EXPECT_EQ(times.seconds.size(), 10u);
  EXPECT_EQ(launches, options.warm_up + options.min_samples);
}

TEST(Sampler, NoisyLaunchesGoOnToTheLimitAndSlowOnesAreStillSampled) {
  int i = 0;
  const LaunchTimes noisy = TimeLaunches(
      SamplerOptions{}, [&]() -> std::optional<double> { return ++i % 2 == 0 ? 1e-3 : 3e-3; });
  EXPECT_GT(noisy.seconds.size(), 100u);
  double spent = 0;
  for (double s : noisy.seconds) spent += s;
  EXPECT_NEAR(spent, SamplerOptions{}.limit_seconds, 0.2);
  // A launch beyond every limit is one sample, never none.
  const LaunchTimes slow =
      TimeLaunches(SamplerOptions{}, []() -> std::optional<double> { return 100.0; });
  EXPECT_EQ(slow.seconds.size(), 1u);
}

TEST(Sampler, AFailedLaunchEndsIt) {
  int i = 0;
  const LaunchTimes times = TimeLaunches(SamplerOptions{}, [&]() -> std::optional<double> {
    if (++i > 5) return std::nullopt;
    return 1e-3;
  });
  EXPECT_EQ(times.seconds.size(), 3u) << "two warm-ups, three samples";
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
  plan.bytes = 1'000'000'001;
  EXPECT_EQ(MakeBenchStats(plan, DType::kF32, times, &memory_bound).roof, "memory");
  // Arithmetic is a roof wherever the data are.
  plan.bytes = 1e9;
  Cached compute_bound(100e9, 100e9);
  const BenchStats computes = MakeBenchStats(plan, DType::kF32, times, &compute_bound);
  EXPECT_EQ(computes.roof, "compute");
  EXPECT_DOUBLE_EQ(*computes.efficiency, 2.0);
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

TEST(Ceilings, AreMeasuredOnceAndArePlausible) {
  const std::unique_ptr<Device> device = MakeCpuDevice(0, ArenaOptions{});
  const std::unique_ptr<Ceilings> ceilings = MakeCpuCeilings(*device);
  const auto begin = std::chrono::steady_clock::now();
  const std::optional<double> f64 = ceilings->FlopsPerSecond(DType::kF64);
  const std::optional<double> f32 = ceilings->FlopsPerSecond(DType::kF32);
  const std::optional<double> bytes = ceilings->BytesPerSecond();
  ASSERT_TRUE(f64 && f32 && bytes);
  EXPECT_GT(*f64, 1e9);
  EXPECT_GT(*f32, *f64 * 1.2) << "twice the lanes";
  EXPECT_LT(*f32, 1e15);
  EXPECT_GT(*bytes, 1e9);
  EXPECT_LT(*bytes, 1e13);
  const std::optional<double> i8 = ceilings->FlopsPerSecond(DType::kI8);
  if (i8) {
    EXPECT_GT(*i8, *f32 / 2);
  }
  for (DType t : {DType::kTF32, DType::kF16, DType::kE4M3FN, DType::kE5M2FNUZ, DType::kE2M1}) {
    EXPECT_FALSE(ceilings->FlopsPerSecond(t).has_value()) << Name(t);
  }
  EXPECT_EQ(ceilings->FlopsPerSecond(DType::kF64), f64) << "kept";
  EXPECT_EQ(ceilings->BytesPerSecond(), bytes);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  RecordProperty("seconds", std::to_string(spent.count()));
  RecordProperty("f32_gflops", std::to_string(*f32 * 1e-9));
  RecordProperty("gigabytes_per_second", std::to_string(*bytes * 1e-9));
  const std::optional<double> bf16 = ceilings->FlopsPerSecond(DType::kBF16);
  RecordProperty("bf16_gflops", bf16 ? std::to_string(*bf16 * 1e-9) : "none");
  RecordProperty("i8_gops", i8 ? std::to_string(*i8 * 1e-9) : "none");
  RecordProperty("f64_gflops", std::to_string(*f64 * 1e-9));
}

}  // namespace
}  // namespace assay
