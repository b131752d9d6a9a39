#include "server/worker/planted_info.h"

#include <string>
#include <vector>

#include "kernels/providers/planted/planted.h"
#include "server/base/wire.h"

namespace assay::server {
namespace {

// One format is enough if the kernel does the same for every format.
std::vector<DType> FormatsOf(const PlantedDefect& defect) {
  if (defect.ends_process) return {DType::kF32};
  return defect.dtypes;
}

}  // namespace

void DescribePlanted(v1::Kernel& kernel) {
  const PlantedDefect* defect = FindPlanted(kernel.op(), kernel.provider(), kernel.backend());
  if (defect == nullptr) return;
  v1::PlantedDefect& out = *kernel.mutable_planted();
  out.set_magnitude(std::string(defect->magnitude));
  out.set_position(static_cast<std::int32_t>(defect - PlantedDefects(kernel.backend()).data()));
  if (defect->slow) return;
  for (const DType dtype : FormatsOf(*defect)) {
    Case c = PlantedCase(*defect, dtype);
    c.seed.reset();
    c.name.clear();
    v1::PlantedExample& example = *out.add_examples();
    *example.mutable_spec() = ToProto(c);
    example.set_check(std::string(ExpectedReason(*defect, dtype)));
    example.set_required_rate(RequiredRate(*defect, dtype));
    example.set_ends_process(defect->ends_process);
  }
}

}  // namespace assay::server
