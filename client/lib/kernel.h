// A user's own kernel: what --kernel names, and how the file gets to a daemon.
#ifndef ASSAY_CLIENT_LIB_KERNEL_H_
#define ASSAY_CLIENT_LIB_KERNEL_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "assay/v1/user_kernel.pb.h"
#include "client/lib/connection.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// What --kernel says. Exactly one of the first three members is set.
struct KernelChoice {
  std::string provider{};         // "user/3fa9c1d2e4b0": the daemon has it already
  std::string node_path{};        // of a library on the daemon's node
  std::string file{};             // a file here
  std::string option = "kernel";  // which option says it, for errors
  std::string launch_file{};      // of CUDA code: its launch description, a file here
  std::string entry{};            // of CUDA code: the kernel in the file; may be empty
  v1::KernelForm form = v1::KERNEL_FORM_UNSPECIFIED;  // unless `provider` is set
};

// Whether a kernel of the form is launched as a launch description says.
bool HasLaunch(v1::KernelForm form);
// Whether the daemon compiles it.
bool IsCompiled(v1::KernelForm form);

// Reads the text of --kernel or --reference, which errors name: a file by its name,
// "user/3fa9c1d2e4b0" or "node:/PATH/LIB.so". INVALID_ARGUMENT says which files can be sent.
absl::StatusOr<KernelChoice> ParseKernel(std::string_view option, const std::string& text);

// The name of the file without its folders: "my_gemm.c".
std::string FileNameOf(const KernelChoice& kernel);

// Sends the kernel, and waits until the daemon has compiled and kept it. `line` gets each line of
// the compiler. INVALID_ARGUMENT if the file cannot be read; else as UploadKernel.
grpc::Status UploadKernel(Connection& connection, const KernelChoice& kernel,
                          absl::FunctionRef<void(const std::string&)> line, v1::UserKernel* result);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_KERNEL_H_
