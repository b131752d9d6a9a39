// The table of planted defects, a row each; see planted.h.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_

#include <vector>

#include "kernels/providers/planted/planted.h"

namespace assay::planted {

std::vector<PlantedDefect> MakeTable();

}  // namespace assay::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_TABLE_H_
