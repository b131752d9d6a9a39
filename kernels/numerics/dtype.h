// Describes the number formats: one table of their properties. Every bound, conversion and print is
// computed from it.
//
// Sources: IEEE 754-2019 (binary16/32/64), the OCP 8-bit Floating Point Specification 1.0 (e4m3fn,
// e5m2), the OCP Microscaling Formats Specification 1.0 (e2m1), and the bias-8/16 "fnuz" formats of
// "8-bit Numerical Formats for Deep Neural Networks" (Noune et al., 2022).
//
// std-only. Host and device use it, but only the host can read the table itself.
#ifndef ASSAY_KERNELS_NUMERICS_DTYPE_H_
#define ASSAY_KERNELS_NUMERICS_DTYPE_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace assay::inline kernels {

// The values are those of assay.v1.DType; a test checks that they agree.
enum class DType : std::uint8_t {
  kUnspecified = 0,
  kF64 = 1,
  kF32 = 2,
  kTF32 = 3,
  kF16 = 4,
  kBF16 = 5,
  kE4M3FN = 6,
  kE4M3FNUZ = 7,
  kE5M2 = 8,
  kE5M2FNUZ = 9,
  kE2M1 = 10,
  kI8 = 11,
  kI32 = 12,
};

inline constexpr int kDTypeCount = 13;

struct FormatInfo {
  DType dtype;
  std::string_view name;  // as the command line and reports write it
  int storage_bits;       // bits of an element in memory; e2m1 packs two into a byte
  int mantissa_bits;      // without the implicit bit; 0 for integers
  bool has_inf;
  bool has_nan;
  bool is_integer;
  double max_finite;
  double min_normal;       // smallest positive normal; 0 for integers
  double min_subnormal;    // η: smallest positive value; 0 for integers
  double unit_roundoff;    // u = 2^-(mantissa_bits + 1); 0 for integers
  double machine_epsilon;  // 2^-mantissa_bits; 0 for integers
};

namespace internal {

constexpr double Pow2(int e) {
  double v = 1.0;
  for (; e > 0; --e) v *= 2.0;
  for (; e < 0; ++e) v *= 0.5;
  return v;
}

constexpr FormatInfo Float(DType t, std::string_view name, int storage, int m, int bias, bool inf,
                           bool nan, double max_finite) {
  return FormatInfo{t,
                    name,
                    storage,
                    m,
                    inf,
                    nan,
                    /*is_integer=*/false,
                    max_finite,
                    Pow2(1 - bias),
                    Pow2(1 - bias - m),
                    Pow2(-(m + 1)),
                    Pow2(-m)};
}

constexpr FormatInfo Integer(DType t, std::string_view name, int bits) {
  return FormatInfo{t, name, bits, 0, false, false, /*is_integer=*/true, Pow2(bits - 1) - 1.0,
                    0, 0,    0,    0};
}

}  // namespace internal

inline constexpr std::array<FormatInfo, kDTypeCount> kFormats = {{
    {DType::kUnspecified, "unspecified", 0, 0, false, false, false, 0, 0, 0, 0, 0},
    internal::Float(DType::kF64, "fp64", 64, 52, 1023, true, true, 0x1.fffffffffffffp1023),
    internal::Float(DType::kF32, "fp32", 32, 23, 127, true, true, 0x1.fffffep127),
    internal::Float(DType::kTF32, "tf32", 32, 10, 127, true, true, 0x1.ffcp127),
    internal::Float(DType::kF16, "fp16", 16, 10, 15, true, true, 65504.0),
    internal::Float(DType::kBF16, "bf16", 16, 7, 127, true, true, 0x1.fep127),
    internal::Float(DType::kE4M3FN, "e4m3fn", 8, 3, 7, false, true, 448.0),
    internal::Float(DType::kE4M3FNUZ, "e4m3fnuz", 8, 3, 8, false, true, 240.0),
    internal::Float(DType::kE5M2, "e5m2", 8, 2, 15, true, true, 57344.0),
    internal::Float(DType::kE5M2FNUZ, "e5m2fnuz", 8, 2, 16, false, true, 57344.0),
    internal::Float(DType::kE2M1, "e2m1", 4, 1, 1, false, false, 6.0),
    internal::Integer(DType::kI8, "int8", 8),
    internal::Integer(DType::kI32, "int32", 32),
}};

// The row of a format in the table. `t` must be a value of the enum.
constexpr const FormatInfo& Info(DType t) { return kFormats[static_cast<std::size_t>(t)]; }

// Info(t).storage_bits. This is a switch because device code cannot read the table.
constexpr int StorageBits(DType t) {
  switch (t) {
    case DType::kF64:
      return 64;
    case DType::kF32:
    case DType::kTF32:
    case DType::kI32:
      return 32;
    case DType::kF16:
    case DType::kBF16:
      return 16;
    case DType::kE4M3FN:
    case DType::kE4M3FNUZ:
    case DType::kE5M2:
    case DType::kE5M2FNUZ:
    case DType::kI8:
      return 8;
    case DType::kE2M1:
      return 4;
    case DType::kUnspecified:
      break;
  }
  return 0;
}

// The name of a format, such as "fp32"; "unspecified" for kUnspecified.
constexpr std::string_view Name(DType t) { return Info(t).name; }

// The format that has this name; kUnspecified if there is none.
constexpr DType ParseDType(std::string_view name) {
  for (const FormatInfo& f : kFormats) {
    if (f.dtype != DType::kUnspecified && f.name == name) return f.dtype;
  }
  return DType::kUnspecified;
}

// Bytes that `count` packed elements take. A last half byte of e2m1 counts as a whole one.
constexpr std::int64_t StorageBytes(DType t, std::int64_t count) {
  return t == DType::kE2M1 ? (count + 1) / 2 : count * (StorageBits(t) / 8);
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_DTYPE_H_
