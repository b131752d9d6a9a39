// Fills in vectors: words, then values, then codes. Each stage works on a chunk that stays in the
// first-level cache.
//
// The bits equal those of kernels/numerics/generate.h on every target. If a target has no fused
// multiply-add (SSE4 and below), the value stage runs the scalar code.
#include "kernels/runtime/cpu/fill_simd.h"

#include <cstdint>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/fill_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/runtime/cpu/draw_words-inl.h"
#include "kernels/runtime/cpu/fill_codes-inl.h"
#include "kernels/runtime/cpu/fill_values-inl.h"

#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_ONCE_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_ONCE_
namespace assay::inline kernels {
namespace {

// The scratch of a chunk. It has room for the words before the first and behind the last element,
// because whole blocks and whole vectors are computed.
inline constexpr std::int64_t kScratch = kFillChunk + 128;

// Whether a pattern's integers are exact as floats.
inline bool IntegersFitFloat(const IntegerRange& r) {
  constexpr std::int64_t kExact = std::int64_t{1} << 24;
  return r.lo >= -kExact && r.count <= static_cast<std::uint64_t>(kExact) &&
         r.lo + static_cast<std::int64_t>(r.count) - 1 <= kExact;
}

inline bool UsesNormal(PatternKind kind) {
  switch (kind) {
    case PatternKind::kNormal:
    case PatternKind::kSparse:
    case PatternKind::kAllPositive:
    case PatternKind::kExtremes:
    case PatternKind::kNearConstant:
    case PatternKind::kLargeSmall:
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace assay::kernels
#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_ONCE_

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

// Writes code i. In scratch memory e2m1 takes one byte a code.
HWY_INLINE void StoreCode(DType dtype, void* out, std::int64_t i, std::uint64_t code) {
  StoreBits(dtype == DType::kE2M1 ? DType::kI8 : dtype, out, i, code);
}

// Sets columns 0 and 1 of every row of large-small.
template <class T>
void SetLargeColumns(const Pattern& p, std::int64_t cols, std::int64_t begin, std::int64_t n,
                     T* v) {
  const T a = static_cast<T>(p.a);
  for (std::int64_t row = begin - begin % cols; row < begin + n; row += cols) {
    if (row >= begin) v[row - begin] = a;
    if (cols > 1 && row + 1 >= begin && row + 1 < begin + n) v[row + 1 - begin] = -a;
  }
}

// Writes integers of the range from the words x. `v` is scratch memory of whole vectors.
void DrawIntegers(DType dtype, const IntegerRange& r, const std::uint32_t* x, std::int64_t n,
                  float* v, void* out) {
  if (!IntegersFitFloat(r)) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto step = static_cast<std::int64_t>((x[i] * r.count) >> 32);
      StoreCode(dtype, out, i, RoundForFill(static_cast<double>(r.lo + step), dtype));
    }
    return;
  }
  const DF32 df;
  const DU32 d32;
  const VU32 count = hn::Set(d32, static_cast<std::uint32_t>(r.count));
  const auto lo = hn::Set(DI32(), static_cast<std::int32_t>(r.lo));
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(df))) {
    hn::StoreU(Integers(hn::LoadU(d32, x + i), count, lo), df, v + i);
  }
  if (dtype == DType::kF64) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<double*>(out)[i] = v[i];
    return;
  }
  Encode(dtype, v, n, out);
}

void DrawCodesTarget(const FillSpec& spec, DType dtype, std::int64_t cols, std::int64_t begin,
                     std::int64_t n, void* out) {
  alignas(64) std::uint32_t x[kScratch];
  alignas(64) std::uint32_t y[kScratch];
  alignas(64) float v[kScratch];
  const Pattern& p = spec.pattern;
  const PhiloxKeys keys(spec.seed);
  const auto block = static_cast<std::uint64_t>(begin) >> 2;
  const std::int64_t skip = begin & 3;
  const std::int64_t words = skip + (n + 15) / 16 * 16;  // whole vectors read that far
  Words(keys, spec.tensor_id, spec.epoch, block, words, x);
  const bool second = DrawsSecond(p.kind) || dtype == DType::kF64;
  if (second) Words(keys, spec.tensor_id ^ kSecondStream, spec.epoch, block, words, y);
  const std::uint32_t *xi = x + skip, *yi = y + skip;

  if (p.kind == PatternKind::kDenormal) {
    for (std::int64_t i = 0; i < n; ++i) {
      StoreCode(dtype, out, i, DenormalBits(dtype, xi[i], second ? yi[i] : 0));
    }
    return;
  }
  if (p.kind == PatternKind::kEveryCode) {
    for (std::int64_t i = 0; i < n; ++i) StoreCode(dtype, out, i, FiniteCode(dtype, xi[i]));
    return;
  }
  if (p.kind == PatternKind::kIntegers) {
    DrawIntegers(dtype, IntegersOf(p), xi, n, v, out);
    return;
  }

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if (dtype == DType::kF64) {
    alignas(64) double values[kScratch];
    Values(UsesNormal(p.kind) ? Pattern{} : p, xi, yi, n, v);
    DoubleValues(p, xi, yi, v, n, values);
    if (p.kind == PatternKind::kLargeSmall) SetLargeColumns(p, cols, begin, n, values);
    const DF64 d;
    const auto least = hn::Set(d, Info(DType::kF64).min_normal);
    StoreAll(d, n, out, [&](std::int64_t i) HWY_ATTR {
      const auto value = hn::LoadU(d, values + i);
      return hn::IfThenElseZero(hn::Ge(hn::Abs(value), least), value);
    });
    return;
  }
  Values(p, xi, yi, n, v);
  if (p.kind == PatternKind::kLargeSmall) SetLargeColumns(p, cols, begin, n, v);
#else
  if (dtype == DType::kF64) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = DrawnValue<double>(p, xi[i], yi[i], (begin + i) % cols);
      StoreCode(dtype, out, i, RoundForFill(value, dtype));
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    v[i] = DrawnValue<float>(p, xi[i], second ? yi[i] : 0, (begin + i) % cols);
  }
#endif
  Encode(dtype, v, n, out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
HWY_EXPORT(DrawCodesTarget);

void DrawCodes(const FillSpec& spec, DType dtype, std::int64_t cols, std::int64_t begin,
               std::int64_t n, void* out) {
  HWY_DYNAMIC_DISPATCH(DrawCodesTarget)(spec, dtype, cols, begin, n, out);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
