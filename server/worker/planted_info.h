// What a worker tells of the kernels that are wrong on purpose, so that the daemon,
// which runs no kernel, can make a self-test of them.
#ifndef ASSAY_SERVER_WORKER_PLANTED_INFO_H_
#define ASSAY_SERVER_WORKER_PLANTED_INFO_H_

#include "assay/v1/device.pb.h"

namespace assay {

// Fills `kernel.planted` from the table of defects; leaves other kernels as they are.
void DescribePlanted(v1::Kernel& kernel);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PLANTED_INFO_H_
