// Makes kernels that end, block or starve their process, or spoil its connections, and compute
// nothing.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_FAULTS_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_FAULTS_H_

#include <memory>
#include <string_view>

#include "kernels/providers/provider.h"

namespace assay::inline kernels::planted {

// `name` is "hang", "crash", "abort", "exit", "alloc" or "garbage". nullptr for other names.
std::unique_ptr<Kernel> MakeFault(std::string_view name);

}  // namespace assay::kernels::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_FAULTS_H_
