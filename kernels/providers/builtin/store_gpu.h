// Rounds to an output format that is known only at run time. It costs one branch for each element,
// the same for all threads, and saves one kernel for each format. For kernels only.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_STORE_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_STORE_GPU_H_

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

// Rounds to nearest even and stores. 8-bit floats saturate.
ASSAY_DEVICE void StoreAs(DType format, void* base, std::int64_t at, float v) {
  switch (format) {
    case DType::kF16:
      static_cast<std::uint16_t*>(base)[at] = ToHalf(v);
      break;
    case DType::kBF16:
      static_cast<std::uint16_t*>(base)[at] = ToBFloat(v);
      break;
    case DType::kF32:
    case DType::kTF32:
      static_cast<float*>(base)[at] = v;
      break;
    default:
      static_cast<std::uint8_t*>(base)[at] =
          static_cast<std::uint8_t>(RoundToFormat(v, format, Overflow::kSat));
  }
}
ASSAY_DEVICE void StoreAs(DType /*fp64*/, void* base, std::int64_t at, double v) {
  static_cast<double*>(base)[at] = v;
}
ASSAY_DEVICE void StoreAs(DType /*int32*/, void* base, std::int64_t at, std::int32_t v) {
  static_cast<std::int32_t*>(base)[at] = v;
}

// Loads element `at` of an operand that has the output's format.
ASSAY_DEVICE float LoadAs(DType format, const void* base, std::int64_t at, float /*as*/) {
  switch (format) {
    case DType::kF16:
      return FromHalf(static_cast<const std::uint16_t*>(base)[at]);
    case DType::kBF16:
      return FromBFloat(static_cast<const std::uint16_t*>(base)[at]);
    case DType::kF32:
    case DType::kTF32:
      return static_cast<const float*>(base)[at];
    default:
      return Code8(format).Load(static_cast<const std::uint8_t*>(base)[at]);
  }
}
ASSAY_DEVICE double LoadAs(DType /*fp64*/, const void* base, std::int64_t at, double /*as*/) {
  return static_cast<const double*>(base)[at];
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_STORE_GPU_H_
