// The tables of planted defects, one row each; see planted.h.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_

#include <string_view>
#include <vector>

#include "kernels/providers/planted/planted.h"

namespace assay::inline kernels::planted {

// The table of the CPU's kernels.
std::vector<PlantedDefect> MakeTable();

// The table of the GPUs' kernels. `illegal_address` is the finding that a write to an unmapped
// address leads to: "fault" if the driver reports it to the process, "crash" if it ends the
// process.
std::vector<PlantedDefect> MakeGpuTable(std::string_view illegal_address);

// The rows of operators that have a table of their own (<op>_table.cc).
std::vector<PlantedDefect> ReduceTable();
std::vector<PlantedDefect> ReduceGpuTable();
std::vector<PlantedDefect> ElementwiseTable();
std::vector<PlantedDefect> ElementwiseGpuTable();
std::vector<PlantedDefect> RopeTable();
std::vector<PlantedDefect> RopeGpuTable();

// The rows of defects that hide below the bound of each element (hidden_table.cc). Those of
// HardwareGemmTable look like faults of hardware.
std::vector<PlantedDefect> HiddenGemmTable();
std::vector<PlantedDefect> HardwareGemmTable();
std::vector<PlantedDefect> HiddenAttentionTable();
std::vector<PlantedDefect> HiddenSoftmaxTable();
std::vector<PlantedDefect> HiddenLayerNormTable();

// Defects of the output that every float operator shows on a GPU. The output of `ragged` has a
// partial tile of columns.
std::vector<PlantedDefect> OfAnyFloats(std::string_view op, const std::vector<DType>& dtypes,
                                       const Problem& plain, const Problem& ragged);

}  // namespace assay::kernels::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_
