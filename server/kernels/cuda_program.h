// The source that is compiled for a CUDA kernel: it includes the author's file, and describes the
// kernel and its launch to the emulator (kernels/simt/cuda/assay_simt_stub.h).
#ifndef ASSAY_SERVER_KERNELS_CUDA_PROGRAM_H_
#define ASSAY_SERVER_KERNELS_CUDA_PROGRAM_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/kernels/launch_description.h"

namespace assay::server {

// The kernel that a launch is of, as its author calls it: `entry`, that of the launch description,
// or the file's only one. INVALID_ARGUMENT as CudaProgram.
absl::StatusOr<std::string> EntryOf(std::string_view file_name, std::string_view source,
                                    const LaunchDescription& launch, std::string_view entry);

// `entry` stands above that of the launch. INVALID_ARGUMENT if the file has no kernel of that name,
// or if neither says which it is, and the file has none or several. The message lists them.
absl::StatusOr<std::string> CudaProgram(std::string_view file_name, std::string_view source,
                                        const LaunchDescription& launch, std::string_view entry);

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_CUDA_PROGRAM_H_
