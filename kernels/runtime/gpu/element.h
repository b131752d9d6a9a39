// Defines stored elements for GPU kernels, and packs of them that are moved in one access. For
// kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_ELEMENT_H_
#define ASSAY_KERNELS_RUNTIME_GPU_ELEMENT_H_

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

// Formats as types. `Store` is the type in memory.
struct Float32 {
  using Store = float;
  static ASSAY_DEVICE_MEMBER float Load(float v) { return v; }
  static ASSAY_DEVICE_MEMBER float Round(float v) { return v; }
};
struct Float64 {
  using Store = double;
  static ASSAY_DEVICE_MEMBER double Load(double v) { return v; }
};
struct Half {
  using Store = std::uint16_t;
  static constexpr bool kBrain = false;
  static ASSAY_DEVICE_MEMBER float Load(std::uint16_t code) { return FromHalf(code); }
  static ASSAY_DEVICE_MEMBER std::uint16_t Round(float v) { return ToHalf(v); }
};
struct BFloat {
  using Store = std::uint16_t;
  static constexpr bool kBrain = true;
  static ASSAY_DEVICE_MEMBER float Load(std::uint16_t code) { return FromBFloat(code); }
  static ASSAY_DEVICE_MEMBER std::uint16_t Round(float v) { return ToBFloat(v); }
};

struct Int8 {
  using Store = std::int8_t;
  static ASSAY_DEVICE_MEMBER std::int32_t Load(std::int8_t v) { return v; }
};

// An 8-bit float format that is known only at run time. Load gives the exact value of a code.
class Code8 {
 public:
  using Store = std::uint8_t;
  ASSAY_DEVICE_MEMBER explicit Code8(DType format) {
    const bool e5 = format == DType::kE5M2 || format == DType::kE5M2FNUZ;
    fnuz_ = format == DType::kE4M3FNUZ || format == DType::kE5M2FNUZ;
    shift_ = e5 ? 21 : 20;
    // 2^(127 − bias). A code's bits, shifted into a float, have an exponent that is too small by
    // that factor.
    scale_ = FloatOf(static_cast<std::uint32_t>(127 + 127 - (e5 ? 15 : 7) - (fnuz_ ? 1 : 0)) << 23);
    special_ = fnuz_ ? 0x80U : e5 ? 0x7cU : 0x7fU;
    infinity_ = e5 ? 0x7cU : 0x80U;
  }
  ASSAY_DEVICE_MEMBER float Load(std::uint8_t code) const {
    const std::uint32_t magnitude = code & 0x7fU;
    const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80U) << 24;
    std::uint32_t bits = BitsOf(FloatOf(magnitude << shift_) * scale_) | sign;
    if (magnitude >= special_) bits = magnitude == infinity_ ? 0x7f800000U | sign : 0x7fc00000U;
    if (fnuz_ && code == 0x80U) bits = 0x7fc00000U;
    return FloatOf(bits);
  }

 private:
  bool fnuz_;
  int shift_;
  float scale_;
  std::uint32_t special_;   // magnitudes from here on are infinity or NaN
  std::uint32_t infinity_;  // the magnitude of infinity; 0x80: none
};

// N elements that one access moves; at most 16 bytes.
template <class Format, int N>
struct alignas(N * sizeof(typename Format::Store)) Pack {
  static_assert(N * sizeof(typename Format::Store) <= 16);
  typename Format::Store v[N];
};

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_ELEMENT_H_
