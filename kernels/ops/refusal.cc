#include "kernels/ops/refusal.h"

#include <string>

#include "absl/strings/cord.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The payloads' names. They stay inside a process.
constexpr char kField[] = "assay/refusal.field";
constexpr char kMessage[] = "assay/refusal.message";

}  // namespace

absl::Status Refusal(const FieldError& error) {
  absl::Status status = absl::InvalidArgumentError(Cat(error.field, ": ", error.message));
  status.SetPayload(kField, absl::Cord(error.field));
  status.SetPayload(kMessage, absl::Cord(error.message));
  return status;
}

FieldError FieldErrorOf(const absl::Status& status) {
  const auto field = status.GetPayload(kField);
  const auto message = status.GetPayload(kMessage);
  if (!field || !message) return {"", std::string(status.message())};
  return {std::string(*field), std::string(*message)};
}

}  // namespace assay::kernels
