#include "kernels/backends/vendors.h"
#include "kernels/providers/cublaslt/cublaslt.h"
#include "kernels/providers/cudnn/cudnn.h"

namespace assay::inline kernels {

std::vector<KernelEntry> VendorKernels() {
  return {CublasltGemm("cuda"), CudnnConv("cuda"), CudnnSoftmax("cuda"), CudnnLayerNorm("cuda"),
          CudnnAttention("cuda")};
}

}  // namespace assay::kernels
