#include <vector>

#include "kernels/ops/comparison.h"
#include "server/base/compare_header.h"
#include "tests/fuzz/fuzz.h"

// The way of a header in server/rpc/compare_stream.cc, up to the device.
void assay::fuzz::FuzzCompare(std::string_view bytes) {
  v1::CompareHeader header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  std::vector<FieldError> errors;
  const Comparison comparison = server::FromProto(header, errors);
  if (!errors.empty()) return;
  const absl::StatusOr<Plan> plan = PlanOf(comparison);
  if (!plan.ok()) {
    RequireNotInternal(plan.status());
    if (absl::IsInvalidArgument(plan.status())) server::ErrorInHeader(plan.status());
    return;
  }
  Require(ArenaBytes(comparison, *plan) >= 0, "a comparison needs less than no memory");
  for (int i = 0; i < comparison.numbers(); ++i) {
    const TensorSpec* tensor = comparison.tensor(i);
    Require(tensor == nullptr || tensor->bytes() >= 0, "a tensor has less than no bytes");
  }
  server::SpecOf(comparison);
}
