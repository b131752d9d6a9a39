// The kernel of a user as device code: compiled CUDA source that the judge itself launches. No code
// of the user's runs on the host. The provider's name is "user/" and a part of the file's digest.
//
// The code runs in the worker's own context of the device, so it can read and write all memory of
// the arena. The launcher therefore overwrites whatever it could find there before it runs
// (Kernel::reaches_device_memory). A fault of the device ends the worker, and so one case.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_DEVICE_KERNEL_H_
#define ASSAY_KERNELS_PROVIDERS_USER_DEVICE_KERNEL_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// Makes the kernel of the device program beside c.kernel_file (device_program.h) for the
// architecture of `device`, a GpuDevice. UNIMPLEMENTED if there is none, or if the kernel does not
// take the case. If the launch description is wrong for the case, the error carries a
// KernelFailure.
absl::StatusOr<std::unique_ptr<Kernel>> MakeDeviceKernel(const Case& c, const Plan& plan,
                                                         Device& device);

// The entry of all operators on a GPU, for providers that begin with kUserPrefix.
KernelEntry UserDeviceKernels(std::string_view backend);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_DEVICE_KERNEL_H_
