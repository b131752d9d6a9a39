// Holds 32 floats, one of each column of a panel, and computes on all of them at once. Each lane is
// rounded as plain float arithmetic rounds: the product and the sum apart, or fused where the name
// says so. Compile with -ffp-contract=off.
//
// Truncate and Aligned model matrix units. Round16 rounds to fp16 or bf16 and stays in float.
#ifndef ASSAY_TESTS_EXPERIMENTS_LANES_H_
#define ASSAY_TESTS_EXPERIMENTS_LANES_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __FMA__
#include <immintrin.h>
#endif

namespace assay::experiment {

inline constexpr int kWidth = 8;   // floats of a vector
inline constexpr int kParts = 4;   // vectors of a panel
inline constexpr int kPanel = 32;  // columns of a panel

typedef float Floats __attribute__((vector_size(kWidth * sizeof(float))));
typedef std::int32_t Ints __attribute__((vector_size(kWidth * sizeof(float))));
typedef std::uint32_t Words __attribute__((vector_size(kWidth * sizeof(float))));
typedef double Doubles __attribute__((vector_size(kWidth * sizeof(double))));
typedef std::int64_t Longs __attribute__((vector_size(kWidth * sizeof(double))));

template <class Vector>
struct Panel {
  Vector part[kParts];

  friend Panel operator+(const Panel& a, const Panel& b) {
    Panel c;
    for (int i = 0; i < kParts; ++i) c.part[i] = a.part[i] + b.part[i];
    return c;
  }
  friend Panel operator-(const Panel& a, const Panel& b) {
    Panel c;
    for (int i = 0; i < kParts; ++i) c.part[i] = a.part[i] - b.part[i];
    return c;
  }
  friend Panel operator*(const Panel& a, const Panel& b) {
    Panel c;
    for (int i = 0; i < kParts; ++i) c.part[i] = a.part[i] * b.part[i];
    return c;
  }
};
using F = Panel<Floats>;
using D = Panel<Doubles>;

inline F All(float v) {
  F x;
  for (Floats& part : x.part) part = v - Floats{};
  return x;
}
inline F Load(const float* from) {
  F x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

// a·b + c with one rounding.
inline F Fma(const F& a, const F& b, const F& c) {
  F x;
  for (int i = 0; i < kParts; ++i) {
#ifdef __FMA__
    x.part[i] = reinterpret_cast<Floats>(_mm256_fmadd_ps(reinterpret_cast<__m256>(a.part[i]),
                                                         reinterpret_cast<__m256>(b.part[i]),
                                                         reinterpret_cast<__m256>(c.part[i])));
#else
    for (int j = 0; j < kWidth; ++j) {
      x.part[i][j] = std::fma(a.part[i][j], b.part[i][j], c.part[i][j]);
    }
#endif
  }
  return x;
}

inline D Wide(const F& a) {
  D x;
  for (int i = 0; i < kParts; ++i) x.part[i] = __builtin_convertvector(a.part[i], Doubles);
  return x;
}
inline F Nearest(const D& a) {
  F x;
  for (int i = 0; i < kParts; ++i) x.part[i] = __builtin_convertvector(a.part[i], Floats);
  return x;
}

// To float, towards zero.
inline F Truncate(const D& a) {
  F x;
  for (int i = 0; i < kParts; ++i) {
    const Doubles v = a.part[i];
    const Floats f = __builtin_convertvector(v, Floats);
    const Doubles back = __builtin_convertvector(f, Doubles);
    const Longs too_large = ((v >= 0) & (back > v)) | ((v < 0) & (back < v));
    // A true lane is −1, and the magnitude of a float is its word without the sign.
    x.part[i] = reinterpret_cast<Floats>(reinterpret_cast<Ints>(f) +
                                         __builtin_convertvector(too_large, Ints));
  }
  return x;
}

// Rounds to a significand of 24 − kDrop bits, to nearest even: 13 gives fp16's and 16 bf16's. The
// exponent keeps float's range.
template <int kDrop>
inline F Round16(const F& a) {
  F x;
  for (int i = 0; i < kParts; ++i) {
    const Ints bits = reinterpret_cast<Ints>(a.part[i]);
    const Ints odd = (bits >> kDrop) & 1;
    const Ints rounded = (bits + ((1 << (kDrop - 1)) - 1) + odd) & ~((1 << kDrop) - 1);
    x.part[i] = reinterpret_cast<Floats>(rounded);
  }
  return x;
}

// The sum of `s` and of kBlock exact products, as a matrix unit forms it. All terms are aligned to
// the largest exponent among them and cut to kKept + kFurther bits; the cut terms are added
// exactly; the sum is cut to kKept bits. Every cut is towards zero. Requires products that float
// holds.
template <int kBlock, int kKept, int kFurther>
inline F Aligned(const F& s, const float* a, const float* b) {
  static_assert(kKept + kFurther <= 26 && kBlock <= 32);
  constexpr int kExponent = 0x7f800000;
  F sum;
  for (int i = 0; i < kParts; ++i) {
    Floats products[kBlock];
    Ints largest = reinterpret_cast<Ints>(s.part[i]) & kExponent;
    for (int k = 0; k < kBlock; ++k) {
      Floats column;
      std::memcpy(&column, b + k * kPanel + i * kWidth, sizeof column);
      products[k] = a[k] * column;
      const Ints exponent = reinterpret_cast<Ints>(products[k]) & kExponent;
      largest = exponent > largest ? exponent : largest;
    }
    const Ints least = (64 << 23) - Ints{};
    largest = largest > least ? largest : least;
    // 2^(bits − 1 − exponent) and its inverse.
    const Words up = ((254U + kKept + kFurther - 1) << 23) - reinterpret_cast<Words>(largest);
    const Floats scale = reinterpret_cast<Floats>(up);
    const Floats back = reinterpret_cast<Floats>((254U << 23) - up);
    Ints whole = __builtin_convertvector(s.part[i] * scale, Ints);
    for (int k = 0; k < kBlock; ++k) whole += __builtin_convertvector(products[k] * scale, Ints);
    const Ints magnitude = whole < 0 ? -whole : whole;
    const Floats nearest = __builtin_convertvector(magnitude, Floats);
    Ints bits = reinterpret_cast<Ints>(nearest) +
                (__builtin_convertvector(nearest, Ints) > magnitude ? Ints{} - 1 : Ints{});
    bits &= ~((1 << (24 - kKept)) - 1);
    const Ints sign = whole & static_cast<int>(0x80000000U);
    sum.part[i] = reinterpret_cast<Floats>(bits | sign) * back;
  }
  return sum;
}

}  // namespace assay::experiment

#endif  // ASSAY_TESTS_EXPERIMENTS_LANES_H_
