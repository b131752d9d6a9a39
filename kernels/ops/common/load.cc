#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/load.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/common/load.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;

HWY_INLINE hn::Vec<D> LoadVector(D d, const double* p) { return hn::LoadU(d, p); }

HWY_INLINE hn::Vec<D> LoadVector(D d, const float* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), p));
}

// bf16 is the upper half of an fp32.
HWY_INLINE hn::Vec<D> LoadVector(D d, const hwy::bfloat16_t* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<float, D> df;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::PromoteTo(d, hn::BitCast(df, hn::ShiftLeft<16>(bits)));
}

HWY_INLINE hn::Vec<D> LoadVector(D d, const std::int8_t* p) {
  const hn::Rebind<std::int32_t, D> d32;
  return hn::PromoteTo(d, hn::PromoteTo(d32, hn::LoadU(hn::Rebind<std::int8_t, D>(), p)));
}

#if HWY_TARGET <= HWY_AVX2
// Only where the processor converts: Highway's own code takes Inf for a number.
HWY_INLINE hn::Vec<D> LoadVector(D d, const hwy::float16_t* p) {
  const hn::Rebind<float, D> df;
  return hn::PromoteTo(d, hn::PromoteTo(df, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), p)));
}
#endif

void LoadScalar(DType dtype, const void* base, std::int64_t begin, std::int64_t count,
                double* dst) {
  for (std::int64_t i = 0; i < count; ++i) dst[i] = LoadDouble(dtype, base, begin + i);
}

template <class T>
HWY_INLINE void LoadRun(DType dtype, const void* base, std::int64_t begin, std::int64_t count,
                        double* dst) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* src = static_cast<const T*>(base) + begin;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadVector(d, src + i), d, dst + i);
  if (i < count) LoadScalar(dtype, base, begin + i, count - i, dst + i);
}

void Load(DType dtype, const void* base, std::int64_t begin, std::int64_t count, double* dst) {
  switch (dtype) {
    case DType::kF64:
      return LoadRun<double>(dtype, base, begin, count, dst);
    case DType::kF32:
      return LoadRun<float>(dtype, base, begin, count, dst);
    case DType::kBF16:
      return LoadRun<hwy::bfloat16_t>(dtype, base, begin, count, dst);
    case DType::kI8:
      return LoadRun<std::int8_t>(dtype, base, begin, count, dst);
#if HWY_TARGET <= HWY_AVX2
    case DType::kF16:
      return LoadRun<hwy::float16_t>(dtype, base, begin, count, dst);
#endif
    default:
      return LoadScalar(dtype, base, begin, count, dst);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {

HWY_EXPORT(Load);

void LoadDoubles(DType dtype, const void* base, std::int64_t begin, std::int64_t count,
                 double* dst) {
  HWY_DYNAMIC_DISPATCH(Load)(dtype, base, begin, count, dst);
}

}  // namespace assay
#endif
