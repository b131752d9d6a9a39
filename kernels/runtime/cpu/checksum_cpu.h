// Computes checksums on the CPU; kernels/runtime/checksum.h defines them.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_CPU_H_

#include "absl/status/statusor.h"
#include "kernels/runtime/checksum.h"

namespace assay::inline kernels {

// Uses all cores; each core takes a contiguous range of rows. The same number of threads gives the
// same bits. The caller has checked the view. INVALID_ARGUMENT if `probes` is negative, if `counts`
// is set without `squares`, or if the matrix is empty.
absl::StatusOr<ChecksumSums> ChecksumCpu(const ChecksumRequest& request);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_CPU_H_
