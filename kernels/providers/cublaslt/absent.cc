// Used if cublasLt.h is missing at build time: the kernel is listed with that reason.
#include "absl/status/status.h"
#include "kernels/providers/cublaslt/cublaslt.h"

namespace assay::inline kernels {
namespace {

constexpr char kReason[] = "this build was made without cuBLASLt's header, cublasLt.h";

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case&, const Plan&, Device&) {
  return absl::UnavailableError(kReason);
}

}  // namespace

KernelEntry CublasltGemm(std::string_view backend) {
  return KernelEntry{.op = "gemm",
                     .provider = "cublaslt",
                     .backend = backend,
                     .dtypes = {},
                     .make = &Make,
                     .unavailable_reason = kReason};
}

}  // namespace assay::kernels
