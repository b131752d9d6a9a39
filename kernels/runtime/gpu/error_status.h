// Translates a toolkit's error codes to statuses for the caller, and tells which cards the
// library's kernels are compiled for.
//
// Free functions; any thread may call them.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_ERROR_STATUS_H_
#define ASSAY_KERNELS_RUNTIME_GPU_ERROR_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// The architectures of the kernels: "sm_80, sm_90, sm_100, compute_100". Later cards compile the
// compute_… code themselves.
std::string_view Architectures();

// Whether the code says that the library has no kernels for this device.
bool IsWithoutCode(ErrorCode code);
// Whether the code says that loaded code is for another device, or of a later toolkit than the
// driver's, and is well otherwise.
bool IsForAnother(ErrorCode code);
// Whether the code says that a stream was recording and the work cannot be recorded.
bool IsUnrecordable(ErrorCode code);

// OK for kOk. Otherwise the message is "what: the toolkit's name of the code: its text", and the
// status is:
//   UNIMPLEMENTED       The device cannot do this at all: a launch of this shape, with so many
//                       registers or so much shared memory; no code for the device (the message
//                       has Architectures); a function that the toolkit does not have; work that
//                       cannot be recorded.
//   RESOURCE_EXHAUSTED  The device has no memory left.
//   PERMISSION_DENIED   This process has no permission.
//   UNAVAILABLE         There is no driver or no device, others hold the device, or its service
//                       has not released it.
//   INTERNAL            Anything else: faults of kernels and of the hardware, lost devices,
//                       errors of this program.
absl::Status StatusOf(ErrorCode code, std::string_view what);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_ERROR_STATUS_H_
