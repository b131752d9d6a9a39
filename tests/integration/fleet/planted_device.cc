#include "tests/integration/fleet/planted_device.h"

#include <algorithm>
#include <functional>

namespace assay::simulated {
namespace {

class MadeUpCeilings final : public Ceilings {
 public:
  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    if (kind == CeilingKind::kMatrix) return std::nullopt;
    Ceiling ceiling;
    ceiling.kind = kind;
    if (!IsMemory(kind)) ceiling.dtype = dtype;
    ceiling.per_second = 2 * (IsMemory(kind) ? kBytesPerSecond : kFlopsPerSecond);
    return ceiling;
  }
};

// Never so far off that a time would not be one.
double Draw(std::mt19937_64& random, double deviation) {
  return std::max(0.5, std::normal_distribution<double>(1, deviation)(random));
}

}  // namespace

void PlantedDevice::Begin(std::string_view case_name, double model_seconds) {
  // The case's own share is the same each time it is run here.
  noise_.seed(faults_.seed.value_or(0) ^ std::hash<std::string_view>()(case_name));
  seconds_of_launch_ = model_seconds / faults_.speed / Draw(noise_, faults_.noise);
}

void PlantedDevice::CountLaunch() { elapsed_ += seconds_of_launch_ * Draw(noise_, faults_.noise); }

absl::StatusOr<double> PlantedDevice::TimeLaunch(absl::FunctionRef<absl::Status()> launch) {
  if (!faults_.seed) return cpu_->TimeLaunch(launch);
  elapsed_ = 0;
  if (absl::Status status = launch(); !status.ok()) return status;
  return elapsed_;
}

std::unique_ptr<Ceilings> MakePlantedCeilings() { return std::make_unique<MadeUpCeilings>(); }

}  // namespace assay::simulated
