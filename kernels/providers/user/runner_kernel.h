// The kernel of a user: a library that a process of its own runs (kernels/runner), judged from
// here. The provider's name is "user/" and a part of the library's digest.
//
// The judge keeps its operands in the device's arena, which the runner never sees. Bring copies
// them to the runner's memory with their guard bands, and Fetch takes them back. The runner is
// stopped from one launch to the next, so it neither sees operands early nor changes them late. A
// thread that goes on writing after the launch has returned is found: some of the output is read at
// once, at places that the kernel does not know, and counts as it was then.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_RUNNER_KERNEL_H_
#define ASSAY_KERNELS_PROVIDERS_USER_RUNNER_KERNEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// Makes the kernel of c.kernel_file: checks the library, starts its process and prepares it.
// UNIMPLEMENTED if the kernel does not do the case, or if this platform cannot contain the process.
// If the library is no kernel or its process dies, the error carries a KernelFailure.
absl::StatusOr<std::unique_ptr<Kernel>> MakeRunnerKernel(const Case& c, const Plan& plan,
                                                         Device& device);

// The entry of all operators on the CPU (or "simt", the emulator), for providers that begin with
// `prefix`.
KernelEntry UserKernels(std::string_view prefix, std::string_view backend = "cpu");

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_RUNNER_KERNEL_H_
