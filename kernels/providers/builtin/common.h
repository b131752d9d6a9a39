// What the built-in CPU kernels share above the SIMD code: refusals, the choice
// of streaming stores, and the workspace.
//
// Free functions; thread-safe.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_COMMON_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_COMMON_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/providers/provider.h"

namespace assay::internal {

// "the built-in softmax has no fp32 to int8 form; it has …".
inline absl::Status NoSuchForm(std::string_view op, DType in, DType out, std::string_view has) {
  std::string message("the built-in ");
  message.append(op).append(" has no ").append(Name(in)).append(" to ").append(Name(out));
  message.append(" form; it has ").append(has);
  return absl::UnimplementedError(message);
}

// Formats of the floating-point kernels: the output is the input's, or fp32
// from a 16-bit input.
inline bool IsFloatForm(DType in, DType out) {
  const bool half = in == DType::kF16 || in == DType::kBF16;
  return (in == out && (half || in == DType::kF32 || in == DType::kF64)) ||
         (half && out == DType::kF32);
}

// Stores that bypass the caches pay once input and output no longer fit in the
// last level: they save reading the output's lines. [bytes] of both together.
inline bool StreamingPays(const Device& device, std::int64_t bytes) {
  std::int64_t last_level = 32 << 20;  // where the device does not say
  const auto& properties = device.info().properties;
  if (const auto it = properties.find("l3_bytes"); it != properties.end()) {
    const std::int64_t told = std::atoll(it->second.c_str());
    if (told > 0) last_level = told;
  }
  return bytes > last_level;
}

// Whether every row starts at a vector border of any target, as streaming stores
// need it.
inline bool RowsAligned(const TensorView& v) {
  return reinterpret_cast<std::uintptr_t>(v.data) % 64 == 0 &&
         StorageBytes(v.dtype, v.extents.ld) % 64 == 0;
}

inline KernelEntry BuiltinEntry(std::string_view op, std::vector<DType> dtypes,
                                KernelFactory make) {
  return KernelEntry{op, "builtin", "cpu", std::move(dtypes), make, ASSAY_VERSION, ""};
}

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_COMMON_H_
