#include "server/base/roofs.h"

#include <algorithm>

#include "kernels/bench/ceilings.h"

namespace assay::server {

bool IsDoubtful(const v1::Ceiling& ceiling) {
  return ceiling.suspect() || ceiling.noise() > kNoisyCeiling;
}

const v1::Ceiling* FindRoof(const CeilingList& ceilings, v1::DType dtype) {
  const v1::Ceiling* roof = nullptr;
  for (const v1::Ceiling& ceiling : ceilings) {
    if (dtype == v1::DTYPE_UNSPECIFIED) {
      const bool copy =
          ceiling.kind() == v1::CEILING_KIND_UNSPECIFIED || ceiling.kind() == v1::CEILING_KIND_COPY;
      if (copy && ceiling.has_bytes_per_second()) roof = &ceiling;
    } else if (ceiling.has_flops_per_second() && ceiling.dtype() == dtype) {
      const bool fastest = roof == nullptr || roof->flops_per_second() < ceiling.flops_per_second();
      if (fastest) roof = &ceiling;
    }
  }
  return roof;
}

Roof RoofOf(const v1::CaseResult& result) {
  const v1::BenchStats& bench = result.bench();
  if (bench.roof() == "compute") return {result.spec().dtype(), bench.ceiling_flops_per_second()};
  return {v1::DTYPE_UNSPECIFIED, bench.ceiling_bytes_per_second()};
}

bool IsSound(const Roof& roof, const CeilingList& ceilings) {
  const v1::Ceiling* const known = FindRoof(ceilings, roof.dtype);
  if (known == nullptr) return true;
  // The ceiling may have been measured again since.
  const double per_second =
      roof.dtype == v1::DTYPE_UNSPECIFIED ? known->bytes_per_second() : known->flops_per_second();
  return per_second == roof.per_second && !IsDoubtful(*known);
}

void MergeCeilings(const CeilingList& told, v1::Device& device) {
  CeilingList& known = *device.mutable_ceilings();
  for (const v1::Ceiling& ceiling : told) {
    const auto old = std::find_if(known.begin(), known.end(), [&](const v1::Ceiling& c) {
      return c.kind() == ceiling.kind() && c.dtype() == ceiling.dtype();
    });
    (old == known.end() ? *known.Add() : *old) = ceiling;
  }
}

}  // namespace assay::server
