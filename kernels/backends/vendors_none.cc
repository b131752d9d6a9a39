// The emulator's backend has no vendor.
#include "kernels/backends/vendors.h"

namespace assay::inline kernels {

std::vector<KernelEntry> VendorKernels() { return {}; }

}  // namespace assay::kernels
