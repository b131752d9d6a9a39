#include "server/worker/doubt.h"

#include <optional>

#include "kernels/bench/ceilings.h"

namespace assay {
namespace {

std::optional<double> NoiseOf(const v1::Ceiling& ceiling) {
  return ceiling.has_noise() ? std::optional<double>(ceiling.noise()) : std::nullopt;
}

}  // namespace

bool IsDoubtful(const v1::Ceiling& ceiling) {
  return ceiling.suspect() || ceiling.noise() > kNoisyCeiling;
}

void DoubtCeilings(const v1::CaseResult& result, v1::Device& device) {
  const v1::BenchStats& bench = result.bench();
  if (!bench.has_efficiency()) return;
  for (v1::Ceiling& ceiling : *device.mutable_ceilings()) {
    // It was held against the one of this height.
    const bool roof = bench.roof() == "compute"
                          ? ceiling.has_flops_per_second() &&
                                ceiling.dtype() == result.spec().dtype() &&
                                ceiling.flops_per_second() == bench.ceiling_flops_per_second()
                          : ceiling.kind() == v1::CEILING_KIND_COPY && bench.roof() == "memory" &&
                                ceiling.bytes_per_second() == bench.ceiling_bytes_per_second();
    if (roof && IsBeyond(bench.efficiency(), NoiseOf(ceiling))) ceiling.set_suspect(true);
  }
}

}  // namespace assay
