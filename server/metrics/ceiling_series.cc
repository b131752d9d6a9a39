#include "server/metrics/ceiling_series.h"

#include <set>

#include "assay/v1/types.pb.h"
#include "server/metrics/kernel_id.h"

namespace assay::server {
namespace {

void Set(Family<Gauge>& family, const Labels& labels, const v1::Ceiling& roof, double per_second) {
  if (IsDoubtful(roof)) {
    family.Remove(labels);
  } else {
    family.Add(labels).Set(per_second);
  }
}

}  // namespace

void SetCeilings(Families& families, const std::string& device, const CeilingList& ceilings) {
  std::set<v1::DType> dtypes;
  for (const v1::Ceiling& ceiling : ceilings) {
    if (ceiling.has_flops_per_second()) dtypes.insert(ceiling.dtype());
  }
  for (const v1::DType dtype : dtypes) {
    const v1::Ceiling* const roof = FindRoof(ceilings, dtype);
    if (roof == nullptr) continue;  // a worker may say anything: flops of a copy
    Set(families.ceiling_flops, {{"device", device}, {"dtype", DTypeLabel(dtype)}}, *roof,
        roof->flops_per_second());
  }
  const v1::Ceiling* const copy = FindRoof(ceilings, v1::DTYPE_UNSPECIFIED);
  if (copy == nullptr) return;
  Set(families.ceiling_bytes, {{"device", device}}, *copy, copy->bytes_per_second());
}

}  // namespace assay::server
