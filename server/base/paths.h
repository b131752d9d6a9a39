// Finds the parts of an installation, starting from the running program: bin/assayd,
// libexec/assay/assay-worker, share/assay/suites. So the tree can be moved. A build tree works too.
#ifndef ASSAY_SERVER_BASE_PATHS_H_
#define ASSAY_SERVER_BASE_PATHS_H_

#include <string>

namespace assay::server {

// The path of the worker program. Empty if there is none.
std::string FindWorker();

// The folder that holds assay/kernel.h, the header of users' kernels. Empty if there is none.
std::string FindKernelHeader();
// The folder of the emulator's headers and archive, which compiled CUDA source needs.
std::string FindSimt();

// assay-device-compiler, which compiles CUDA and HIP source for cards. Empty if there is none.
std::string FindDeviceCompiler();

// The folder of the libraries of cheats (kernels/cheats). Empty if there is none.
std::string FindCheats();

// The folder of the suites. Empty if there is none.
std::string FindSuites();

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_PATHS_H_
