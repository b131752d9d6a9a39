// Compiles the source of a user's kernel into a shared library, with the compiler of the node, or
// into device code, with NVRTC or hipRTC (device_compiler_main.cc).
//
// The compiler runs as a contained process (server/containment): it reads the system's headers, the
// header of the kernels' ABI and the source, writes its private folder, and reaches nothing else.
// So a source cannot include a key or another user's file. Time, memory, the size of the library
// and the length of the log are limited. Each compile has a new private folder.
//
// Thread-safe.
#ifndef ASSAY_SERVER_KERNELS_COMPILER_H_
#define ASSAY_SERVER_KERNELS_COMPILER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/user_kernel.pb.h"

namespace assay::server {

struct CompilerOptions {
  std::string include_folder;                // holds assay/kernel.h; empty: there is none
  std::string simt_folder;                   // the emulator's, for CUDA; empty: there is none
  std::string device_compiler;               // path of assay-device-compiler; empty: there is none
  std::string nvrtc_library;                 // of $ASSAY_NVRTC; empty: where the toolkit puts it
  std::string hiprtc_library;                // of $ASSAY_HIPRTC; likewise
  std::vector<std::string> forbidden;        // never readable, wherever they lie
  absl::Duration limit = absl::Seconds(60);  // for one compile
  std::int64_t memory_bytes = std::int64_t{4} << 30;  // address space of each process
  std::int64_t library_bytes = std::int64_t{64} << 20;
  std::int64_t log_bytes = 128 << 10;
};

// What device code is for.
struct DeviceTargets {
  std::vector<std::string>
      cuda;                      // the architectures of the node's CUDA devices, each once: "sm_90"
  std::vector<std::string> hip;  // of its HIP devices: "gfx90a:sramecc+:xnack-"
  bool emulator = true;
};

struct Compile {
  std::string source;     // path of the file
  std::string file_name;  // as the author calls the file; messages of the compiler show it
  v1::KernelForm form = v1::KERNEL_FORM_UNSPECIFIED;  // C, C++, CUDA or HIP
  std::string program = {};  // for the emulator: the source that includes the file (cuda_program.h)
  // Of device code: "sm_90" or "gfx90a", and the kernel, as the author calls it. Empty: a library.
  std::string architecture = {};
  std::string entry = {};
  std::string result;  // path of the result; a file there is replaced
  // Called with each line as the compiler prints it: valid UTF-8 without control characters.
  std::function<void(const std::string& line)> log;
  const std::atomic<bool>* cancel = nullptr;  // ends the compile; may be null
};

// Compiles. Device code is the kernel's symbol, a symbol that tells its parameters, an
// end of line behind each, and a cubin or a code object of AMD's. Errors:
// INVALID_ARGUMENT, reason KERNEL_SOURCE, if the source does not compile, takes too long or too
// much memory: the message begins with the first line that names the author's file.
// FAILED_PRECONDITION if the node has no compiler. CANCELLED. INTERNAL.
absl::Status CompileKernel(const CompilerOptions& options, const Compile& compile);

// What the result of a compile depends on beside the source: compiler, flags, processor, header.
// Equal texts mean that a library need not be compiled again.
std::string Toolchain(const CompilerOptions& options, v1::KernelForm form,
                      const DeviceTargets& targets);

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_COMPILER_H_
