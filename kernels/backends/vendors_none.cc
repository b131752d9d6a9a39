// The emulator's backend has no vendor.
#include "kernels/backends/vendors.h"

namespace assay {

std::vector<KernelEntry> VendorKernels() { return {}; }

}  // namespace assay
