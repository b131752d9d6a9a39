// Checksums of a matrix on a GPU; what they are is in kernels/runtime/checksum.h.
//
// Two launches: blocks of 64 rows leave partial sums along rows and columns in a
// workspace, and a thread for each result adds those in the order of their place. The
// same request gives the same bits. Only counts go through atomics.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_CHECKSUM_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_CHECKSUM_GPU_H_

#include <cstdint>

#include "kernels/runtime/checksum.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::gpu {

// Bytes of device memory for what the launches leave to one another, and for the result.
std::int64_t ChecksumWorkspaceBytes(const ChecksumRequest& request);
std::int64_t ChecksumResultBytes(const ChecksumRequest& request);

// Enqueues the pass. The matrix, the request's vectors, `workspace` and `result` lie in
// device memory, the latter two on multiples of 8 bytes. The request is one that
// ChecksumCpu takes: the matrix has elements, probes >= 0, counts only with squares.
ErrorCode LaunchChecksum(const ChecksumRequest& request, void* workspace, void* result,
                         Stream stream);

// `result` copied to the host.
ChecksumSums UnpackChecksum(const void* result, const ChecksumRequest& request);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_CHECKSUM_GPU_H_
