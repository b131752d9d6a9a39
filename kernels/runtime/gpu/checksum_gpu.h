// Computes checksums of a matrix on a GPU; kernels/runtime/checksum.h defines them.
//
// It works in two steps. First, blocks of 64 rows write partial sums along rows and columns to a
// workspace. Then one thread for each result adds the partial sums in the order of their place. The
// same request gives the same bits. Only counts use atomics.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_CHECKSUM_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_CHECKSUM_GPU_H_

#include <cstdint>

#include "kernels/runtime/checksum.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Bytes of device memory for the partial sums and for the result.
std::int64_t ChecksumWorkspaceBytes(const ChecksumRequest& request);
std::int64_t ChecksumResultBytes(const ChecksumRequest& request);

// Enqueues the pass. The matrix, the request's vectors, `workspace` and `result` lie in device
// memory; `workspace` and `result` are aligned to 8 bytes. The caller must make sure that the
// matrix has elements, that probes >= 0, and that `counts` comes only with `squares`.
ErrorCode LaunchChecksum(const ChecksumRequest& request, void* workspace, void* result,
                         Stream stream);

// Unpacks a result that was copied to the host.
ChecksumSums UnpackChecksum(const void* result, const ChecksumRequest& request);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_CHECKSUM_GPU_H_
