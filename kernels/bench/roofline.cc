#include "kernels/bench/roofline.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace assay::inline kernels {
namespace {

// Above either value a median is called noisy, even if the middle half of its launches agreed.
constexpr double kMostNoise = 0.25;
constexpr double kMostStandardError = 0.02;

// Memory that is only read may be faster than memory that is copied, but not by more than this.
constexpr double kMostOverCopy = 1.5;
// A kernel that writes a smaller share of its bytes is held to the speed of reads, too.
constexpr double kLeastWritten = 0.25;

// Whether a kernel is faster than the memory. What a cache holds of its operands, and its last
// writes, need not have been moved when it ends.
bool IsBeyondMemory(const Plan& plan, double seconds, const Ceiling& copy, Ceilings& ceilings) {
  const double moved = plan.bytes - static_cast<double>(ceilings.CacheBytes());
  if (!IsBeyond(moved / seconds / copy.per_second, copy.noise)) return false;
  const std::int64_t written = StorageBytes(plan.output.dtype, plan.output.extents.count());
  if (static_cast<double>(written) >= kLeastWritten * plan.bytes) return true;
  const std::optional<Ceiling> read = ceilings.Find(CeilingKind::kRead, DType::kUnspecified);
  return !read || read->per_second > kMostOverCopy * copy.per_second ||
         IsBeyond(moved / seconds / read->per_second, read->noise);
}

// How far the samples spread, and whether that makes the median noisy. There are two or more.
void AddSpread(const LaunchTimes& times, BenchStats& stats) {
  stats.p10_seconds = Quantile(times.seconds, 0.1);
  stats.p90_seconds = Quantile(times.seconds, 0.9);
  stats.noise = Noise(times.seconds);
  stats.median_standard_error = MedianStandardError(times.seconds);
  stats.noisy = stats.noisy || stats.noise.value_or(0) > kMostNoise ||
                stats.median_standard_error.value_or(0) > kMostStandardError;
}

}  // namespace

BenchStats MakeBenchStats(const Plan& plan, DType input, const LaunchTimes& times,
                          Ceilings* ceilings) {
  BenchStats stats;
  stats.samples = static_cast<int>(times.seconds.size());
  stats.noisy = !times.settled;
  stats.clock_failed = times.clock_failed;
  stats.launches_per_sample = times.launches_per_sample;
  stats.replayed = times.replayed;
  stats.from_memory = times.from_memory;
  if (times.seconds.empty()) return stats;
  const double median = Quantile(times.seconds, 0.5);
  if (!(median > 0)) {  // the clock stood still or went backwards
    stats.samples = 0;
    stats.clock_failed = true;
    return stats;
  }
  stats.median_seconds = median;
  if (stats.samples > 1) AddSpread(times, stats);
  if (!plan.work_known) return stats;
  if (plan.flops > 0) stats.flops_per_second = plan.flops / median;
  if (plan.bytes > 0) stats.bytes_per_second = plan.bytes / median;
  if (ceilings == nullptr) return stats;

  const std::optional<Ceiling> arithmetic = ceilings->Compute(input);
  const std::optional<Ceiling> copy = ceilings->Memory();
  if (arithmetic) stats.ceiling_flops_per_second = arithmetic->per_second;
  if (copy) stats.ceiling_bytes_per_second = copy->per_second;
  const double compute = stats.ceiling_flops_per_second && plan.flops > 0
                             ? plan.flops / *stats.ceiling_flops_per_second
                             : 0.0;
  const double memory = stats.ceiling_bytes_per_second && plan.bytes > 0
                            ? plan.bytes / *stats.ceiling_bytes_per_second
                            : 0.0;
  // The compute ceiling may be the roof, but it is not measured. So no memory roof is claimed.
  if (plan.flops > 0 && !stats.ceiling_flops_per_second) return stats;
  const double bound = std::max(compute, memory);
  if (!(bound > 0)) return stats;
  if (memory > compute && !times.from_memory &&
      plan.bytes <= static_cast<double>(ceilings->CacheBytes())) {
    // The data move through the cache, whose roof was not measured.
    stats.roof = "cache";
    return stats;
  }
  stats.roof = compute >= memory ? "compute" : "memory";
  stats.efficiency = bound / median;
  if (compute >= memory) {
    if (IsBeyond(*stats.efficiency, arithmetic->noise)) {
      ceilings->Doubt(arithmetic->kind, arithmetic->dtype);
    }
  } else if (times.from_memory && IsBeyondMemory(plan, median, *copy, *ceilings)) {
    ceilings->Doubt(copy->kind, copy->dtype);
  }
  return stats;
}

}  // namespace assay::kernels
