// Sends the kernel of --kernel or --reference to a daemon before the job that names it, and tells
// of it on stderr.
#ifndef ASSAY_CLIENT_CLI_KERNEL_UPLOAD_H_
#define ASSAY_CLIENT_CLI_KERNEL_UPLOAD_H_

#include <string>

#include "client/cli/context.h"
#include "client/lib/connection.h"
#include "client/lib/kernel.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// What stands in a case for the kernel of --kernel or --reference until the daemon has named it.
inline constexpr char kKernelToCome[] = "user/";

// Sends the kernel and sets *name to the daemon's name for it, "user/…". Does nothing but that if
// the daemon has the kernel already. Prints "compiling my_gemm.c … 1.2 s" and the compiler's lines.
grpc::Status SendKernel(const Context& context, Connection& connection, const KernelChoice& kernel,
                        std::string* name);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_KERNEL_UPLOAD_H_
