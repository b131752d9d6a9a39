// Describes the kernels that are wrong on purpose. The worker sends this to the daemon, which runs
// no kernel itself and makes a self-test from it.
#ifndef ASSAY_SERVER_WORKER_PLANTED_INFO_H_
#define ASSAY_SERVER_WORKER_PLANTED_INFO_H_

#include "assay/v1/device.pb.h"

namespace assay::server {

// Fills in `kernel.planted` from the table of defects. Leaves other kernels as they are.
void DescribePlanted(v1::Kernel& kernel);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PLANTED_INFO_H_
