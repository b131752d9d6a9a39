#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/load_floats.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/load_floats.h"
#include "kernels/runtime/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;

// bf16 is the upper half of an fp32.
HWY_INLINE hn::Vec<DF> LoadVector(DF d, const hwy::bfloat16_t* p) {
  const hn::Rebind<std::uint16_t, DF> d16;
  const hn::Rebind<std::uint32_t, DF> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

HWY_INLINE hn::Vec<DF> LoadVector(DF d, const std::int8_t* p) {
  const hn::Rebind<std::int32_t, DF> d32;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(hn::Rebind<std::int8_t, DF>(), p)));
}

HWY_INLINE hn::Vec<DF> LoadVector(DF d, const hwy::float16_t* p) {
  const hn::Rebind<std::uint16_t, DF> d16;
  return WidenHalf(d, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
}

// By way of doubles, a piece at a time.
void Narrow(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst) {
  constexpr std::int64_t kPiece = 256;
  double piece[kPiece];
  for (std::int64_t i = 0; i < count; i += kPiece) {
    const std::int64_t n = std::min(kPiece, count - i);
    LoadDoubles(dtype, base, begin + i, n, piece);
    for (std::int64_t j = 0; j < n; ++j) dst[i + j] = static_cast<float>(piece[j]);
  }
}

template <class T>
HWY_INLINE void Run(DType dtype, const void* base, std::int64_t begin, std::int64_t count,
                    float* dst) {
  const DF d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* src = static_cast<const T*>(base) + begin;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadVector(d, src + i), d, dst + i);
  if (i < count) Narrow(dtype, base, begin + i, count - i, dst + i);
}

void Load(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst) {
  switch (dtype) {
    case DType::kF32:
    case DType::kTF32:
      std::memcpy(dst, static_cast<const float*>(base) + begin,
                  static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::kBF16:
      return Run<hwy::bfloat16_t>(dtype, base, begin, count, dst);
    case DType::kI8:
      return Run<std::int8_t>(dtype, base, begin, count, dst);
    case DType::kF16:
      return Run<hwy::float16_t>(dtype, base, begin, count, dst);
    default:
      return Narrow(dtype, base, begin, count, dst);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {

HWY_EXPORT(Load);

void LoadFloats(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst) {
  HWY_DYNAMIC_DISPATCH(Load)(dtype, base, begin, count, dst);
}

}  // namespace assay
#endif
