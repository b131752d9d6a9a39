#include "server/metrics/suite_tally.h"

#include <algorithm>

#include "kernels/numerics/change.h"
#include "server/base/case_spec.h"

namespace assay::server {
namespace {

// A time with a larger relative deviation is in doubt.
constexpr double kMostNoise = 0.10;

}  // namespace

SuiteTally::SuiteTally(const std::vector<v1::Device>& devices) {
  for (const v1::Device& device : devices) ceilings_[device.id()] = device.ceilings();
}

void SuiteTally::Add(const v1::CaseResult& result) {
  const std::string& provider = result.spec().provider();
  if (IsPlanted(provider) || IsUserKernel(provider) || result.spec().fill()) return;
  if (result.verdict() == v1::VERDICT_UNSUPPORTED) return;
  Kernel& kernel = devices_[result.device()][NamesOf(result.spec())];
  if (result.verdict() == v1::VERDICT_PASSED && result.stats().has_rho()) {
    kernel.ratio_max = std::max(kernel.ratio_max.value_or(0), result.stats().rho());
  }
  if (IsBenchmark(result)) AddSpeed(result, kernel);
}

void SuiteTally::AddSpeed(const v1::CaseResult& result, Kernel& kernel) const {
  const v1::BenchStats& bench = result.bench();
  kernel.timed = true;
  // Also if the case was skipped because of a budget, since the rest would be other cases.
  if (!HasSpeed(result) || bench.noise() > kMostNoise ||
      bench.conditions().waiting_ratio() > kMostWaiting) {
    kernel.untold = true;
    return;
  }
  const bool by_memory = bench.roof() == "memory" || !bench.has_flops_per_second();
  if (by_memory && bench.has_bytes_per_second()) kernel.bytes.Add(bench.bytes_per_second());
  if (!by_memory) kernel.flops.Add(bench.flops_per_second());
  if (bench.has_efficiency() && (bench.roof() == "compute" || bench.roof() == "memory")) {
    const auto ceilings = ceilings_.find(result.device());
    const Roof roof = RoofOf(result);
    kernel.doubted |= ceilings != ceilings_.end() && !IsSound(roof, ceilings->second);
    auto& [mean, of] = kernel.efficiency[bench.roof()];
    mean.Add(bench.efficiency());
    of = roof;
  }
}

}  // namespace assay::server
