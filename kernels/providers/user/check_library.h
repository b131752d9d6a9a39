// Says whether a file can be a kernel's library for this machine, from its bytes alone. Nothing of
// the file runs.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_CHECK_LIBRARY_H_
#define ASSAY_KERNELS_PROVIDERS_USER_CHECK_LIBRARY_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace assay::inline kernels {

// The function that a kernel's library exports (kernels/sdk/assay/kernel.h).
inline constexpr char kKernelSymbol[] = "assay_kernel_v1";

// Checks a shared library in ELF: its class, byte order and processor, that it is whole, and that
// it exports kKernelSymbol. INVALID_ARGUMENT says what is wrong and what would be right. A library
// without section headers passes without the look for the symbol; it is looked for again when the
// library is loaded.
absl::Status CheckLibrary(std::span<const std::byte> bytes);

// What a library of CUDA source exports beside it: it runs on the emulator (kernels/simt).
inline constexpr char kEmulatedSymbol[] = "assay_simt_v1";

// Whether the library exports the symbol. False if the file is malformed.
bool ExportsSymbol(std::span<const std::byte> bytes, std::string_view symbol);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_CHECK_LIBRARY_H_
