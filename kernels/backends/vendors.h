// Lists the kernels of vendors' libraries for the toolkit that a backend is built with. Each
// vendors_<backend>.cc has its own list, and the build links one of them.
#ifndef ASSAY_KERNELS_BACKENDS_VENDORS_H_
#define ASSAY_KERNELS_BACKENDS_VENDORS_H_

#include <vector>

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// Opens the libraries and returns their kernels. A kernel that cannot run here has the reason in
// its entry.
std::vector<KernelEntry> VendorKernels();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BACKENDS_VENDORS_H_
