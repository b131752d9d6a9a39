// The CPU's own kernels under their own names, wrong where the node's faults say so.
#ifndef ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_KERNEL_H_
#define ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_KERNEL_H_

#include "kernels/providers/provider.h"

namespace assay::simulated {

// As RegisterAll, for a PlantedDevice alone. Kernels that are wrong on purpose stay as they
// are.
void RegisterPlanted(Registry& registry);

}  // namespace assay::simulated

#endif  // ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_KERNEL_H_
