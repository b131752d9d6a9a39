// Stored elements of any format as doubles, in GPU references: a type for each format
// that inner loops should know, one for all others. For kernels only.
#ifndef ASSAY_KERNELS_OPS_COMMON_ELEMENT_GPU_H_
#define ASSAY_KERNELS_OPS_COMMON_ELEMENT_GPU_H_

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

// Element `i` of storage of format `t`, exactly.
struct AnyElement {
  static ASSAY_DEVICE_MEMBER double At(const void* base, DType t, std::int64_t i) {
    return LoadDouble(t, base, i);
  }
};
template <class Store>
struct PlainElement {  // float, double
  static ASSAY_DEVICE_MEMBER double At(const void* base, DType, std::int64_t i) {
    return static_cast<double>(static_cast<const Store*>(base)[i]);
  }
};
struct HalfElement {
  static ASSAY_DEVICE_MEMBER double At(const void* base, DType, std::int64_t i) {
    return static_cast<double>(FromHalf(static_cast<const std::uint16_t*>(base)[i]));
  }
};
struct BFloatElement {
  static ASSAY_DEVICE_MEMBER double At(const void* base, DType, std::int64_t i) {
    return static_cast<double>(FromBFloat(static_cast<const std::uint16_t*>(base)[i]));
  }
};

// body(element type) of a format; a tf32 is the float32 word that holds it.
template <class Body>
ErrorCode ForElement(DType t, const Body& body) {
  switch (t) {
    case DType::kF64:
      return body(PlainElement<double>{});
    case DType::kF32:
    case DType::kTF32:
      return body(PlainElement<float>{});
    case DType::kF16:
      return body(HalfElement{});
    case DType::kBF16:
      return body(BFloatElement{});
    default:
      return body(AnyElement{});
  }
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_COMMON_ELEMENT_GPU_H_
