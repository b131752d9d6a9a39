// Used if cudnn.h is missing at build time: the kernels are listed with that reason.
#include "absl/status/status.h"
#include "kernels/providers/cudnn/cudnn.h"

namespace assay::inline kernels {
namespace {

constexpr char kReason[] = "this build was made without cuDNN's headers, cudnn.h";

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case&, const Plan&, Device&) {
  return absl::UnavailableError(kReason);
}

KernelEntry Entry(std::string_view op, std::string_view backend) {
  return KernelEntry{.op = op,
                     .provider = "cudnn",
                     .backend = backend,
                     .dtypes = {},
                     .make = &Make,
                     .unavailable_reason = kReason};
}

}  // namespace

KernelEntry CudnnConv(std::string_view backend) { return Entry("conv", backend); }
KernelEntry CudnnSoftmax(std::string_view backend) { return Entry("softmax", backend); }
KernelEntry CudnnLayerNorm(std::string_view backend) { return Entry("layer_norm", backend); }
KernelEntry CudnnAttention(std::string_view backend) { return Entry("attention", backend); }

}  // namespace assay::kernels
