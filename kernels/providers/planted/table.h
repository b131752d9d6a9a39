// The tables of planted defects, one row each; see planted.h.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_

#include <string_view>
#include <vector>

#include "kernels/providers/planted/planted.h"

namespace assay::planted {

// The table of the CPU's kernels.
std::vector<PlantedDefect> MakeTable();

// The table of the GPUs' kernels. `illegal_address` is the finding that a write to an unmapped
// address leads to: "fault" if the driver reports it to the process, "crash" if it ends the
// process.
std::vector<PlantedDefect> MakeGpuTable(std::string_view illegal_address);

}  // namespace assay::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_
