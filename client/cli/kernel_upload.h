// Sends the kernel of --kernel to a daemon before the job that names it, and tells of it on stderr.
#ifndef ASSAY_CLIENT_CLI_KERNEL_UPLOAD_H_
#define ASSAY_CLIENT_CLI_KERNEL_UPLOAD_H_

#include "assay/v1/job.pb.h"
#include "client/cli/context.h"
#include "client/lib/connection.h"
#include "client/lib/kernel.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// The provider of a case that stands for the kernel of --kernel until the daemon has named it.
inline constexpr char kKernelToCome[] = "user/";

// Sends the kernel and names it in the cases of the job. Does nothing if the daemon has the kernel
// already ("user/…"). Prints "compiling my_gemm.c … 1.2 s" and the compiler's lines.
grpc::Status SendKernel(const Context& context, Connection& connection, const KernelChoice& kernel,
                        v1::JobSpec* spec);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_KERNEL_UPLOAD_H_
