#include "kernels/backends/vendors.h"
#include "kernels/providers/rocblas/rocblas.h"

namespace assay::inline kernels {

std::vector<KernelEntry> VendorKernels() { return {RocblasGemm("hip")}; }

}  // namespace assay::kernels
