// UserKernelOptions: the settings of the daemon's operator for users' kernels.
#ifndef ASSAY_SERVER_KERNELS_USER_KERNEL_OPTIONS_H_
#define ASSAY_SERVER_KERNELS_USER_KERNEL_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/kernels/compiler.h"
#include "server/kernels/kernel_folder.h"

namespace assay::server {

struct UserKernelOptions {
  bool library = false;                   // libraries are taken
  bool source = false;                    // C, C++ and CUDA source is taken, and compiled
  bool code_object = false;               // PTX, cubins and AMD's code objects are taken
  std::vector<std::string> node_folders;  // whose libraries a client may name
  std::int64_t most_bytes = std::int64_t{64} << 20;  // [bytes] of one file
  KernelFolderOptions folder;
  CompilerOptions compiler;
  std::function<DeviceTargets()> targets;  // empty: the emulator alone
  std::string cheats_folder;  // libraries of the cheats (kernels/cheats); empty: there are none

  // Whether any form is taken.
  bool on() const { return library || source || code_object; }
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_USER_KERNEL_OPTIONS_H_
