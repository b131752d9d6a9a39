// What a toolkit's code means to whoever asked for the work, and which cards the library's
// kernels are compiled for.
//
// Free functions; thread-safe.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_ERROR_STATUS_H_
#define ASSAY_KERNELS_RUNTIME_GPU_ERROR_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::gpu {

// "sm_80, sm_90, sm_100, compute_100": compute_… is what later cards compile themselves.
std::string_view Architectures();

// The code was not made for this device: no kernel of the library runs there.
bool IsWithoutCode(ErrorCode code);
// The stream was recording, and the work is of a kind that cannot be recorded.
bool IsUnrecordable(ErrorCode code);

// OK; else "what: the toolkit's name for it: its text", and what is known beyond that:
//   UNIMPLEMENTED       the device cannot do it at all: a launch of that shape or with so many
//                       registers or so much shared memory, no code for the device (with
//                       Architectures), what the toolkit has not, what cannot be recorded
//   RESOURCE_EXHAUSTED  its memory
//   PERMISSION_DENIED   this process may not
//   UNAVAILABLE         no driver, no device, one that others hold or that its service has
//                       not released
//   INTERNAL            anything else: faults of kernels and of the hardware, lost devices,
//                       errors of this program
absl::Status StatusOf(ErrorCode code, std::string_view what);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_ERROR_STATUS_H_
