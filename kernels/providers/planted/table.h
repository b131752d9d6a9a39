// The tables of planted defects, a row each; see planted.h.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_

#include <string_view>
#include <vector>

#include "kernels/providers/planted/planted.h"

namespace assay::planted {

// Of the CPU's kernels.
std::vector<PlantedDefect> MakeTable();

// Of those of GPUs; `illegal_address` is the finding that a write to where nothing is
// comes to: "fault" where the driver tells the process, "crash" where it ends it.
std::vector<PlantedDefect> MakeGpuTable(std::string_view illegal_address);

}  // namespace assay::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_
