#include "kernels/runtime/kernel_failure.h"

#include <cstring>
#include <string>

#include "absl/strings/cord.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr char kPayload[] = "assay/kernel-failure";

}  // namespace

absl::Status FailedKernel(const KernelFailure& failure, std::string_view message) {
  absl::Status status = absl::InternalError(Cat(message));
  std::string bytes(sizeof failure, '\0');
  std::memcpy(bytes.data(), &failure, sizeof failure);
  status.SetPayload(kPayload, absl::Cord(bytes));
  return status;
}

std::optional<KernelFailure> FailureOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  KernelFailure failure;
  if (!payload || payload->size() != sizeof failure) return std::nullopt;
  const std::string bytes(*payload);
  std::memcpy(&failure, bytes.data(), sizeof failure);
  return failure;
}

}  // namespace assay::kernels
