#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/load.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <array>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/common/load.h"
#include "kernels/runtime/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using F = hn::ScalableTag<float>;

// Elements as floats, which hold every value of these formats.
template <class DF>
HWY_INLINE hn::Vec<DF> LoadFloat(DF d, const float* p) {
  return hn::LoadU(d, p);
}

// bf16 is the upper half of an fp32.
template <class DF>
HWY_INLINE hn::Vec<DF> LoadFloat(DF d, const hwy::bfloat16_t* p) {
  const hn::Rebind<std::uint16_t, DF> d16;
  const hn::Rebind<std::uint32_t, DF> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class DF>
HWY_INLINE hn::Vec<DF> LoadFloat(DF d, const hwy::float16_t* p) {
  const hn::Rebind<std::uint16_t, DF> d16;
  return WidenHalf(d, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
}

template <class DF>
HWY_INLINE hn::Vec<DF> LoadFloat(DF d, const std::int8_t* p) {
  const hn::Rebind<std::int32_t, DF> d32;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(hn::Rebind<std::int8_t, DF>(), p)));
}

template <class T>
HWY_INLINE hn::Vec<F> LoadVector(F d, const T* p) {
  return LoadFloat(d, p);
}

template <class T>
HWY_INLINE hn::Vec<D> LoadVector(D d, const T* p) {
  return hn::PromoteTo(d, LoadFloat(hn::Rebind<float, D>(), p));
}

HWY_INLINE hn::Vec<D> LoadVector(D d, const double* p) { return hn::LoadU(d, p); }

void LoadCodes(const double* values, const void* base, std::int64_t begin, std::int64_t count,
               double* dst) {
  const std::uint8_t* src = static_cast<const std::uint8_t*>(base) + begin;
  for (std::int64_t i = 0; i < count; ++i) dst[i] = values[src[i]];
}

// Two to a byte, the even element in the low nibble.
void LoadNibbles(const double* values, const void* base, std::int64_t begin, std::int64_t count,
                 double* dst) {
  const std::uint8_t* src = static_cast<const std::uint8_t*>(base);
  std::int64_t i = 0;
  if (begin % 2 != 0 && count > 0) dst[i++] = values[src[begin / 2] >> 4];
  for (; i + 2 <= count; i += 2) {
    const std::uint8_t byte = src[(begin + i) / 2];
    dst[i] = values[byte & 0xf];
    dst[i + 1] = values[byte >> 4];
  }
  if (i < count) dst[i] = values[src[(begin + i) / 2] & 0xf];
}

// Elements that no vector is loaded of: one by one to doubles, by way of doubles to floats.
void LoadPlain(DType dtype, const void* base, std::int64_t begin, std::int64_t count, double* dst) {
  for (std::int64_t i = 0; i < count; ++i) dst[i] = LoadDouble(dtype, base, begin + i);
}

void LoadPlain(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst) {
  constexpr std::int64_t kPiece = 256;
  double piece[kPiece];
  for (std::int64_t i = 0; i < count; i += kPiece) {
    const std::int64_t n = std::min(kPiece, count - i);
    LoadDoubles(dtype, base, begin + i, n, piece);
    for (std::int64_t j = 0; j < n; ++j) dst[i + j] = static_cast<float>(piece[j]);
  }
}

template <class T, class To>
HWY_INLINE void LoadRun(DType dtype, const void* base, std::int64_t begin, std::int64_t count,
                        To* dst) {
  const hn::ScalableTag<To> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* src = static_cast<const T*>(base) + begin;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadVector(d, src + i), d, dst + i);
  if (i < count) LoadPlain(dtype, base, begin + i, count - i, dst + i);
}

void ToDoubles(DType dtype, const void* base, std::int64_t begin, std::int64_t count, double* dst) {
  switch (dtype) {
    case DType::kF64:
      return LoadRun<double>(dtype, base, begin, count, dst);
    case DType::kF32:
    case DType::kTF32:  // a float32 word, its value as it is
      return LoadRun<float>(dtype, base, begin, count, dst);
    case DType::kBF16:
      return LoadRun<hwy::bfloat16_t>(dtype, base, begin, count, dst);
    case DType::kI8:
      return LoadRun<std::int8_t>(dtype, base, begin, count, dst);
    case DType::kF16:
      return LoadRun<hwy::float16_t>(dtype, base, begin, count, dst);
    case DType::kE4M3FN:
    case DType::kE4M3FNUZ:
    case DType::kE5M2:
    case DType::kE5M2FNUZ:
      return LoadCodes(ValuesOfCodes(dtype), base, begin, count, dst);
    case DType::kE2M1:
      return LoadNibbles(ValuesOfCodes(dtype), base, begin, count, dst);
    default:
      return LoadPlain(dtype, base, begin, count, dst);
  }
}

void ToFloats(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst) {
  switch (dtype) {
    case DType::kF32:
    case DType::kTF32:
      std::memcpy(dst, static_cast<const float*>(base) + begin,
                  static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::kBF16:
      return LoadRun<hwy::bfloat16_t>(dtype, base, begin, count, dst);
    case DType::kI8:
      return LoadRun<std::int8_t>(dtype, base, begin, count, dst);
    case DType::kF16:
      return LoadRun<hwy::float16_t>(dtype, base, begin, count, dst);
    default:
      return LoadPlain(dtype, base, begin, count, dst);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(ToDoubles);
HWY_EXPORT(ToFloats);

namespace {

template <DType kType>
const double* Values() {
  static const std::array<double, 256> values = [] {
    std::array<double, 256> v{};
    for (std::size_t code = 0; code < v.size(); ++code) v[code] = ToDouble(kType, code);
    return v;
  }();
  return values.data();
}

}  // namespace

const double* ValuesOfCodes(DType dtype) {
  switch (dtype) {
    case DType::kE4M3FN:
      return Values<DType::kE4M3FN>();
    case DType::kE4M3FNUZ:
      return Values<DType::kE4M3FNUZ>();
    case DType::kE5M2:
      return Values<DType::kE5M2>();
    case DType::kE5M2FNUZ:
      return Values<DType::kE5M2FNUZ>();
    case DType::kE2M1:
      return Values<DType::kE2M1>();
    default:
      return nullptr;
  }
}

void LoadDoubles(DType dtype, const void* base, std::int64_t begin, std::int64_t count,
                 double* dst) {
  HWY_DYNAMIC_DISPATCH(ToDoubles)(dtype, base, begin, count, dst);
}

void LoadFloats(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst) {
  HWY_DYNAMIC_DISPATCH(ToFloats)(dtype, base, begin, count, dst);
}

}  // namespace assay::kernels
#endif
