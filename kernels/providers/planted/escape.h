// Makes a kernel that computes nothing and tries to get out of its worker.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_ESCAPE_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_ESCAPE_H_

#include <memory>

#include "kernels/providers/provider.h"

namespace assay::inline kernels::planted {

// The kernel finds the files of the process that started the worker by that process's command line,
// as an intruder would. It tries to read the TLS key, the roles, the configuration and the store;
// to read the memory of that process and to signal it; to open sockets; to change who may use the
// store; and to start a child that leaves the worker's process group. Each launch ends with an
// error that names every attempt and what came of it: "refused (…)", "allowed", or "not there". The
// child ends by itself after two minutes.
std::unique_ptr<Kernel> MakeEscape();

}  // namespace assay::kernels::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_ESCAPE_H_
