// The stream of a device, for kernels under test and references that enqueue on it.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_STREAM_OF_H_
#define ASSAY_KERNELS_RUNTIME_GPU_STREAM_OF_H_

#include "absl/status/statusor.h"
#include "kernels/runtime/gpu/gpu_device.h"

namespace assay::gpu {

// `device` is a GpuDevice: factories of a GPU backend get no other.
inline absl::StatusOr<Stream> StreamOf(Device& device) {
  return static_cast<GpuDevice&>(device).stream();
}

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_STREAM_OF_H_
