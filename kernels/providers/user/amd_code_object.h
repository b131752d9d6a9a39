// Looks into code objects of AMD's, the device code in a file .hsaco or .co: for which devices it
// is, and which kernels with which parameters are in it. The bytes are a stranger's: nothing in
// them is trusted.
//
// Source: LLVM, "User Guide for AMDGPU Backend", Code Object V3 to V5 Metadata; clang, "Clang
// Offload Bundler", Bundled Binary File Layout.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_AMD_CODE_OBJECT_H_
#define ASSAY_KERNELS_PROVIDERS_USER_AMD_CODE_OBJECT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::inline kernels {

struct AmdKernel {
  std::string symbol;
  std::vector<std::int64_t> parameter_bytes;  // of each that the author gave the kernel
};

// The code for one kind of device.
struct AmdCodeObject {
  std::string architecture;  // "gfx90a", or with features, "gfx90a:xnack+"
  std::string_view image;    // its part of the file: what the runtime loads
  std::vector<AmdKernel> kernels;
};

// Of a code object, or of each one in a bundle, which hipcc --genco makes. INVALID_ARGUMENT says
// what the bytes are instead.
absl::StatusOr<std::vector<AmdCodeObject>> AmdCodeObjects(std::string_view bytes);

// Whether a device, "gfx90a:sramecc+:xnack-", takes code for `architecture`: it has the features
// that the code names.
bool IsFor(std::string_view architecture, std::string_view device);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_AMD_CODE_OBJECT_H_
