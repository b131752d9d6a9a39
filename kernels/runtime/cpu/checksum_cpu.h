// Checksums on the CPU; see kernels/runtime/checksum.h for what they are.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_CPU_H_

#include "absl/status/statusor.h"
#include "kernels/runtime/checksum.h"

namespace assay {

// On all cores, each a contiguous range of rows: the same bits for the same number of
// threads. The view has been checked; INVALID_ARGUMENT names a vector that is missing.
absl::StatusOr<ChecksumSums> ChecksumCpu(const ChecksumRequest& request);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_CPU_H_
