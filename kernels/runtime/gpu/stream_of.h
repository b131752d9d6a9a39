// Returns the stream of a device, for kernels under test and references that enqueue work on it.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_STREAM_OF_H_
#define ASSAY_KERNELS_RUNTIME_GPU_STREAM_OF_H_

#include "absl/status/statusor.h"
#include "kernels/runtime/gpu/gpu_device.h"

namespace assay::inline kernels::gpu {

// `device` must be a GpuDevice. Factories of a GPU backend get no other device.
inline absl::StatusOr<Stream> StreamOf(Device& device) {
  return static_cast<GpuDevice&>(device).stream();
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_STREAM_OF_H_
