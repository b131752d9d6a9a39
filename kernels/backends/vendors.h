// The vendor's kernels of the toolkit that a backend is built with, a line each in
// vendors_<backend>.cc: which of them is linked chooses.
#ifndef ASSAY_KERNELS_BACKENDS_VENDORS_H_
#define ASSAY_KERNELS_BACKENDS_VENDORS_H_

#include <vector>

#include "kernels/providers/provider.h"

namespace assay {

// Those that cannot run here with the reason. Opens the libraries.
std::vector<KernelEntry> VendorKernels();

}  // namespace assay

#endif  // ASSAY_KERNELS_BACKENDS_VENDORS_H_
