#include "kernels/validate/host_draws.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/numerics/generate.h"

namespace assay::inline kernels {
namespace {

constexpr int kBlocks = 64;           // of Philox, in a piece
constexpr int kDrawn = 4 * kBlocks;   // elements of a piece
constexpr std::int64_t kFewest = 64;  // fewer elements are drawn one by one

// The stream of an operand's elements.
struct Stream {
  std::uint64_t seed;
  std::uint32_t tensor;
};

// The words of a piece that begins at block `first`.
[[gnu::target("avx2,fma")]] void DrawWords(const Stream& stream, std::uint64_t first,
                                           std::uint32_t* __restrict out) {
  alignas(32) std::uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = first + static_cast<std::uint64_t>(i);
    c0[i] = static_cast<std::uint32_t>(block);
    c1[i] = static_cast<std::uint32_t>(block >> 32);
    c2[i] = stream.tensor;
    c3[i] = 0;  // the epoch
  }
  auto key0 = static_cast<std::uint32_t>(stream.seed);
  auto key1 = static_cast<std::uint32_t>(stream.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * c0[i];
      const std::uint64_t p1 = std::uint64_t{kPhiloxM1} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<std::uint32_t>(p1);
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<std::uint32_t>(p0);
    }
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
  }
  for (int i = 0; i < kBlocks; ++i, out += 4) {
    out[0] = c0[i];
    out[1] = c1[i];
    out[2] = c2[i];
    out[3] = c3[i];
  }
}

// The first eight octaves of the coefficients, by power. Of 256 words one is in a deeper octave.
constexpr int kNear = 8;
struct alignas(32) NearOctaves {
  float of[kNormalDegree + 1][kNear];

  constexpr NearOctaves() : of() {
    for (int power = 0; power <= kNormalDegree; ++power) {
      for (int octave = 0; octave < kNear; ++octave) {
        of[power][octave] = kNormalCoefficients[octave][power];
      }
    }
  }
};
constexpr NearOctaves kNearOctaves;

// NormalFromWord of a piece.
[[gnu::target("avx2,fma")]] void DrawNormals(const std::uint32_t* __restrict words,
                                             float* __restrict out) {
  __m256 coefficients[kNormalDegree + 1];
  for (int k = 0; k <= kNormalDegree; ++k) coefficients[k] = _mm256_load_ps(kNearOctaves.of[k]);
  for (int i = 0; i < kDrawn; i += kNear) {
    const __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(words + i));
    // The exponent of the bits behind the sign, as a float, tells the octave. Some bits are cleared
    // first, so that rounding does not carry.
    const __m256i below = _mm256_and_si256(x, _mm256_set1_epi32(0x7fffffff));
    const __m256i clear = _mm256_andnot_si256(_mm256_srli_epi32(below, 8), below);
    const __m256i exponent = _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(clear)), 23);
    const __m256i octave = _mm256_sub_epi32(_mm256_set1_epi32(157), exponent);
    const __m256i v = _mm256_or_si256(_mm256_slli_epi32(x, 1), _mm256_set1_epi32(1));
    const __m256i w = _mm256_srli_epi32(_mm256_sllv_epi32(v, octave), 8);
    const __m256i one_f = _mm256_or_si256(_mm256_and_si256(w, _mm256_set1_epi32(0x7fffff)),
                                          _mm256_set1_epi32(0x3f800000));
    const __m256 f = _mm256_sub_ps(_mm256_castsi256_ps(one_f), _mm256_set1_ps(1.0F));
    __m256 r = _mm256_permutevar8x32_ps(coefficients[kNormalDegree], octave);
    for (int k = kNormalDegree - 1; k >= 0; --k) {
      r = _mm256_fmadd_ps(r, f, _mm256_permutevar8x32_ps(coefficients[k], octave));
    }
    const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(x), _mm256_set1_ps(-0.0F));
    _mm256_store_ps(out + i, _mm256_xor_ps(r, sign));
    const __m256i deep = _mm256_cmpgt_epi32(octave, _mm256_set1_epi32(kNear - 1));
    for (auto left = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(deep)));
         left != 0; left &= left - 1) {
      const int at = i + std::countr_zero(left);
      out[at] = NormalFromWord(words[at]);
    }
  }
}

// Rounds floats as RoundForFill does. The format has fewer bits than fp32, or as many.
[[gnu::target("avx2,fma")]] void RoundFloats(const float* __restrict v, DType dtype,
                                             double* __restrict out) {
  const FormatInfo& format = Info(dtype);
  const auto dropped = static_cast<std::uint32_t>(23 - format.mantissa_bits);
  const std::uint32_t ties = dropped > 0 ? 1 : 0;
  const std::uint32_t below_half = dropped > 0 ? (1U << (dropped - 1)) - 1 : 0;
  const std::uint32_t kept = ~((1U << dropped) - 1);
  const auto least = static_cast<float>(format.min_normal);
  const auto most = static_cast<float>(format.max_finite);
  const auto usual = [&](float x) {
    return (std::fabs(x) >= least && std::fabs(x) <= most) || x == 0;
  };
  int unusual = 0;
  for (int i = 0; i < kDrawn; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(v[i]);
    const std::uint32_t rounded = (bits + below_half + ((bits >> dropped) & ties)) & kept;
    out[i] = static_cast<double>(std::bit_cast<float>(v[i] == 0 ? 0 : rounded));
    unusual += usual(v[i]) ? 0 : 1;
  }
  for (int i = 0; unusual > 0 && i < kDrawn; ++i) {
    if (usual(v[i])) continue;
    out[i] = ToDouble(dtype, RoundForFill(static_cast<double>(v[i]), dtype));
    --unusual;
  }
}

// A piece of an operand that draws.
[[gnu::flatten, gnu::target("avx2,fma")]] void DrawPiece(const Operand& o, const Stream& stream,
                                                         std::int64_t block, double* out) {
  alignas(32) std::uint32_t x[kDrawn], y[kDrawn];
  alignas(32) float v[kDrawn];
  const Pattern p = o.pattern;
  const DType dtype = o.dtype;
  const auto first = static_cast<std::uint64_t>(block);
  DrawWords(stream, first, x);
  const bool second = DrawsSecond(p.kind) || dtype == DType::kF64;
  if (second) {
    DrawWords({stream.seed, stream.tensor ^ kSecondStream}, first, y);
  } else {
    std::fill_n(y, kDrawn, 0);
  }
  const bool codes = p.kind == PatternKind::kDenormal || p.kind == PatternKind::kEveryCode ||
                     p.kind == PatternKind::kIntegers;
  const bool columns = p.kind == PatternKind::kLargeSmall;
  const auto column = [&](int i) { return columns ? (4 * block + i) % o.extents.cols : 0; };
  if (codes || dtype == DType::kF64 || Info(dtype).is_integer) {
    for (int i = 0; i < kDrawn; ++i) {
      out[i] = ToDouble(dtype, DrawnBits(p, dtype, x[i], y[i], column(i), kNormalCoefficients));
    }
    return;
  }
  if (p.kind == PatternKind::kNormal) {
    DrawNormals(x, v);
    const auto a = static_cast<float>(p.a), b = static_cast<float>(p.b);
    for (int i = 0; i < kDrawn; ++i) v[i] = __builtin_fmaf(a, v[i], b);
  } else {
    for (int i = 0; i < kDrawn; ++i) v[i] = DrawnValue<float>(p, x[i], y[i], column(i));
  }
  RoundFloats(v, dtype, out);
}

void DrawPieces(const Operand& o, const Stream& stream, std::int64_t begin, std::int64_t count,
                double* out) {
  double piece[kDrawn];
  for (std::int64_t at = begin, end = begin + count; at < end;) {
    const std::int64_t block = at / 4, skipped = at % 4;
    const std::int64_t here = std::min(kDrawn - skipped, end - at);
    const bool whole = here == kDrawn;
    DrawPiece(o, stream, block, whole ? out : piece);
    if (!whole) std::copy_n(piece + skipped, here, out);
    out += here;
    at += here;
  }
}

// One by one: with fused multiply-adds of the processor, and with the library's, which are calls.
// Both round once. (The compiler must fuse no others: see CMakeLists.txt.)
[[gnu::flatten, gnu::target("fma")]] void DrawFused(Generator& generator, std::int64_t begin,
                                                    std::int64_t count, double* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = generator.Value(begin + i);
}
void DrawPlain(Generator& generator, std::int64_t begin, std::int64_t count, double* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = generator.Value(begin + i);
}

}  // namespace

void DrawOnHost(const Operand& o, std::uint64_t seed, std::uint32_t tensor, std::int64_t begin,
                std::int64_t count, double* out) {
  static const bool fused = __builtin_cpu_supports("fma") != 0;
  static const bool vectors = fused && __builtin_cpu_supports("avx2") != 0;
  if (vectors && count >= kFewest && DrawsFirst(o.pattern.kind)) {
    return DrawPieces(o, {seed, tensor}, begin, count, out);
  }
  Generator generator(o.pattern, seed, tensor, /*epoch=*/0, o.extents.rows, o.extents.cols,
                      o.dtype);
  (fused ? DrawFused : DrawPlain)(generator, begin, count, out);
}

}  // namespace assay::kernels
