// Twelve chains side by side: enough to hide a latency of 4 cycles behind two pipes, and few enough
// for 16 registers.
#include "kernels/bench/multiply_add_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bench/multiply_add_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef ASSAY_MULTIPLY_ADD_SHARED_
#define ASSAY_MULTIPLY_ADD_SHARED_
namespace assay::inline kernels::internal {
inline constexpr int kChains = 12;
// Results go here, so that the compiler computes them.
inline volatile double multiply_add_sink = 0;
}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void Chains(std::int64_t rounds) {
  const hn::ScalableTag<T> d;
  const auto a = hn::Set(d, static_cast<T>(0.999));
  const auto b = hn::Set(d, static_cast<T>(0.001));
  auto c0 = hn::Iota(d, static_cast<T>(0)), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0,
       c7 = c0, c8 = c0, c9 = c0, c10 = c0, c11 = c0;
  for (std::int64_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, a, b);
    c1 = hn::MulAdd(c1, a, b);
    c2 = hn::MulAdd(c2, a, b);
    c3 = hn::MulAdd(c3, a, b);
    c4 = hn::MulAdd(c4, a, b);
    c5 = hn::MulAdd(c5, a, b);
    c6 = hn::MulAdd(c6, a, b);
    c7 = hn::MulAdd(c7, a, b);
    c8 = hn::MulAdd(c8, a, b);
    c9 = hn::MulAdd(c9, a, b);
    c10 = hn::MulAdd(c10, a, b);
    c11 = hn::MulAdd(c11, a, b);
    // The compiler must not merge equal chains.
    asm volatile(""
                 : "+x"(c0.raw), "+x"(c1.raw), "+x"(c2.raw), "+x"(c3.raw), "+x"(c4.raw),
                   "+x"(c5.raw), "+x"(c6.raw), "+x"(c7.raw), "+x"(c8.raw), "+x"(c9.raw),
                   "+x"(c10.raw), "+x"(c11.raw));
  }
  const auto sum = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)),
                           hn::Add(hn::Add(hn::Add(c4, c5), hn::Add(c6, c7)),
                                   hn::Add(hn::Add(c8, c9), hn::Add(c10, c11))));
  multiply_add_sink = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

void ChainsF64(std::int64_t rounds) { Chains<double>(rounds); }
void ChainsF32(std::int64_t rounds) { Chains<float>(rounds); }
int VectorBytes() { return static_cast<int>(hn::Lanes(hn::ScalableTag<std::uint8_t>())); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cpuid.h>
#include <immintrin.h>

namespace assay::inline kernels::internal {
namespace {

HWY_EXPORT(ChainsF64);
HWY_EXPORT(ChainsF32);
HWY_EXPORT(VectorBytes);

void RunF64(std::int64_t rounds) { HWY_DYNAMIC_DISPATCH(ChainsF64)(rounds); }
void RunF32(std::int64_t rounds) { HWY_DYNAMIC_DISPATCH(ChainsF32)(rounds); }

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void RunBF16(std::int64_t rounds) {
  const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f00);  // 0.5
  __m512 c0 = _mm512_setzero_ps(), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0,
         c8 = c0, c9 = c0, c10 = c0, c11 = c0;
  for (std::int64_t i = 0; i < rounds; ++i) {
    c0 = _mm512_dpbf16_ps(c0, a, a);
    c1 = _mm512_dpbf16_ps(c1, a, a);
    c2 = _mm512_dpbf16_ps(c2, a, a);
    c3 = _mm512_dpbf16_ps(c3, a, a);
    c4 = _mm512_dpbf16_ps(c4, a, a);
    c5 = _mm512_dpbf16_ps(c5, a, a);
    c6 = _mm512_dpbf16_ps(c6, a, a);
    c7 = _mm512_dpbf16_ps(c7, a, a);
    c8 = _mm512_dpbf16_ps(c8, a, a);
    c9 = _mm512_dpbf16_ps(c9, a, a);
    c10 = _mm512_dpbf16_ps(c10, a, a);
    c11 = _mm512_dpbf16_ps(c11, a, a);
    asm volatile(""
                 : "+v"(c0), "+v"(c1), "+v"(c2), "+v"(c3), "+v"(c4), "+v"(c5), "+v"(c6), "+v"(c7),
                   "+v"(c8), "+v"(c9), "+v"(c10), "+v"(c11));
  }
  multiply_add_sink = static_cast<double>(_mm512_cvtss_f32(
      _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(_mm512_add_ps(c0, c1), _mm512_add_ps(c2, c3)),
                                  _mm512_add_ps(_mm512_add_ps(c4, c5), _mm512_add_ps(c6, c7))),
                    _mm512_add_ps(_mm512_add_ps(c8, c9), _mm512_add_ps(c10, c11)))));
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void RunI8(std::int64_t rounds) {
  const __m512i a = _mm512_set1_epi8(3);
  __m512i c0 = _mm512_setzero_si512(), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0,
          c7 = c0, c8 = c0, c9 = c0, c10 = c0, c11 = c0;
  for (std::int64_t i = 0; i < rounds; ++i) {
    c0 = _mm512_dpbusd_epi32(c0, a, a);
    c1 = _mm512_dpbusd_epi32(c1, a, a);
    c2 = _mm512_dpbusd_epi32(c2, a, a);
    c3 = _mm512_dpbusd_epi32(c3, a, a);
    c4 = _mm512_dpbusd_epi32(c4, a, a);
    c5 = _mm512_dpbusd_epi32(c5, a, a);
    c6 = _mm512_dpbusd_epi32(c6, a, a);
    c7 = _mm512_dpbusd_epi32(c7, a, a);
    c8 = _mm512_dpbusd_epi32(c8, a, a);
    c9 = _mm512_dpbusd_epi32(c9, a, a);
    c10 = _mm512_dpbusd_epi32(c10, a, a);
    c11 = _mm512_dpbusd_epi32(c11, a, a);
    asm volatile(""
                 : "+v"(c0), "+v"(c1), "+v"(c2), "+v"(c3), "+v"(c4), "+v"(c5), "+v"(c6), "+v"(c7),
                   "+v"(c8), "+v"(c9), "+v"(c10), "+v"(c11));
  }
  const __m512i sum = _mm512_add_epi32(
      _mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(c0, c1), _mm512_add_epi32(c2, c3)),
                       _mm512_add_epi32(_mm512_add_epi32(c4, c5), _mm512_add_epi32(c6, c7))),
      _mm512_add_epi32(_mm512_add_epi32(c8, c9), _mm512_add_epi32(c10, c11)));
  multiply_add_sink = static_cast<double>(_mm_cvtsi128_si32(_mm512_castsi512_si128(sum)));
}

// Processors without AVX-512 may have the same dot product in vectors of half the length.
__attribute__((target("avx2,avxvnni"))) void RunI8AvxVnni(std::int64_t rounds) {
  const __m256i a = _mm256_set1_epi8(3);
  __m256i c0 = _mm256_setzero_si256(), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0,
          c7 = c0, c8 = c0, c9 = c0, c10 = c0, c11 = c0;
  for (std::int64_t i = 0; i < rounds; ++i) {
    c0 = _mm256_dpbusd_avx_epi32(c0, a, a);
    c1 = _mm256_dpbusd_avx_epi32(c1, a, a);
    c2 = _mm256_dpbusd_avx_epi32(c2, a, a);
    c3 = _mm256_dpbusd_avx_epi32(c3, a, a);
    c4 = _mm256_dpbusd_avx_epi32(c4, a, a);
    c5 = _mm256_dpbusd_avx_epi32(c5, a, a);
    c6 = _mm256_dpbusd_avx_epi32(c6, a, a);
    c7 = _mm256_dpbusd_avx_epi32(c7, a, a);
    c8 = _mm256_dpbusd_avx_epi32(c8, a, a);
    c9 = _mm256_dpbusd_avx_epi32(c9, a, a);
    c10 = _mm256_dpbusd_avx_epi32(c10, a, a);
    c11 = _mm256_dpbusd_avx_epi32(c11, a, a);
    asm volatile(""
                 : "+x"(c0), "+x"(c1), "+x"(c2), "+x"(c3), "+x"(c4), "+x"(c5), "+x"(c6), "+x"(c7),
                   "+x"(c8), "+x"(c9), "+x"(c10), "+x"(c11));
  }
  const __m256i sum = _mm256_add_epi32(
      _mm256_add_epi32(_mm256_add_epi32(_mm256_add_epi32(c0, c1), _mm256_add_epi32(c2, c3)),
                       _mm256_add_epi32(_mm256_add_epi32(c4, c5), _mm256_add_epi32(c6, c7))),
      _mm256_add_epi32(_mm256_add_epi32(c8, c9), _mm256_add_epi32(c10, c11)));
  multiply_add_sink = static_cast<double>(_mm256_extract_epi32(sum, 0));
}

__attribute__((target("avx2"))) void RunI8Avx2(std::int64_t rounds) {
  __m256i a = _mm256_set1_epi8(3);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i c0 = _mm256_setzero_si256(), c1 = c0, c2 = c0, c3 = c0;
  // Only the additions are chained, one cycle each: four chains and kChains products.
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (int k = 0; k < kChains / 4; ++k) {
      asm volatile("" : "+x"(a));  // so that the compiler makes each product
      c0 = _mm256_add_epi32(c0, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
      asm volatile("" : "+x"(a));
      c1 = _mm256_add_epi32(c1, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
      asm volatile("" : "+x"(a));
      c2 = _mm256_add_epi32(c2, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
      asm volatile("" : "+x"(a));
      c3 = _mm256_add_epi32(c3, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
    }
  }
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(c0, c1), _mm256_add_epi32(c2, c3));
  multiply_add_sink = static_cast<double>(_mm_cvtsi128_si32(_mm256_castsi256_si128(sum)));
}

// __builtin_cpu_supports does not know this word in every compiler. A processor that has the
// instructions and a system that does not keep their registers would lack AVX2, too.
bool HasAvxVnni() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a >> 4 & 1) != 0;
}

}  // namespace

MultiplyAddLoop MultiplyAddLoopOf(DType dtype) {
  const int bytes = HWY_DYNAMIC_DISPATCH(VectorBytes)();
  switch (dtype) {
    case DType::kF64:
      return {RunF64, 2.0 * kChains * bytes / 8};
    case DType::kF32:
      return {RunF32, 2.0 * kChains * bytes / 4};
    case DType::kBF16:
      if (__builtin_cpu_supports("avx512bf16")) return {RunBF16, 2.0 * kChains * 32};
      return {};
    case DType::kI8:
      if (__builtin_cpu_supports("avx512vnni")) return {RunI8, 2.0 * kChains * 64};
      if (HasAvxVnni()) return {RunI8AvxVnni, 2.0 * kChains * 32};
      if (__builtin_cpu_supports("avx2")) return {RunI8Avx2, 2.0 * kChains * 32};
      return {};
    default:
      return {};
  }
}

}  // namespace assay::kernels::internal
#endif  // HWY_ONCE
