// Elements of GPU kernels: what a stored element is, and how 16 bytes of them are
// moved at once. For kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_ELEMENT_H_
#define ASSAY_KERNELS_RUNTIME_GPU_ELEMENT_H_

#include "kernels/runtime/gpu/port.h"

namespace assay::gpu {

// Formats as types: `Store` is what lies in memory.
struct Float32 {
  using Store = float;
  static ASSAY_DEVICE_MEMBER float Load(float v) { return v; }
  static ASSAY_DEVICE_MEMBER float Round(float v) { return v; }
};
struct Half {
  using Store = std::uint16_t;
  static ASSAY_DEVICE_MEMBER float Load(std::uint16_t code) { return FromHalf(code); }
  static ASSAY_DEVICE_MEMBER std::uint16_t Round(float v) { return ToHalf(v); }
};
struct BFloat {
  using Store = std::uint16_t;
  static ASSAY_DEVICE_MEMBER float Load(std::uint16_t code) { return FromBFloat(code); }
  static ASSAY_DEVICE_MEMBER std::uint16_t Round(float v) { return ToBFloat(v); }
};

// N elements moved by one access of at most 16 bytes.
template <class Format, int N>
struct alignas(N * sizeof(typename Format::Store)) Pack {
  static_assert(N * sizeof(typename Format::Store) <= 16);
  typename Format::Store v[N];
};

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_ELEMENT_H_
