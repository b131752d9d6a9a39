// Specifies input data: the value of element i of a tensor that a pattern fills, as plain scalar
// code. Fast fills must give the same bits, and the host regenerates inputs from this code.
//
// Random words: element i takes x, its word of the Philox stream (seed, tensor, epoch). Some kinds
// need a second word y. It comes from the stream whose tensor word has the top bit flipped. Let n
// be the normal deviate of x, and u the top 24 bits of x as a number in [0, 1); u(y) is the same of
// y.
//   normal         fma(a, n, b)              uniform       fma(u, hi − lo, lo), below hi
//   integers       lo + floor(x·(hi−lo+1)/2^32)
//   sparse         u(y) < a ? b·n : 0        all-positive  |a·n|
//   extremes       fma(b, n, y's top bit ? −a : a)
//   near-constant  fma(b, n, a)              large-small   n in columns past the first two
//   bernoulli      u < a                     exact-sparse  u < a ? (x odd ? −1 : 1) : 0
//   exact-ints     u of the low 24 bits of x < a ? 1 + (x >> (32 − b)) : 0
//   denormal       magnitude code 1 + floor(x·(2^m − 1)/2^32), sign from x's lowest bit
// The other kinds draw nothing: they depend on row, column and index, and the kinds of key_groups.h
// and unit_places.h on the batch, too. The arithmetic is in float. For fp64 it is in double, and n
// and u take 29 to 32 more bits from y, so that all 53 bits of an element matter.
//
// The value is rounded to the format once, to nearest even. If a finite value is beyond the format,
// 8- and 4-bit formats saturate, and wider formats overflow to Inf. A result that is zero or
// subnormal in the format becomes +0, but not with `denormal`.
//
// std-only. A Generator is for one thread.
#ifndef ASSAY_KERNELS_NUMERICS_GENERATE_H_
#define ASSAY_KERNELS_NUMERICS_GENERATE_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/dtype.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/key_groups.h"
#include "kernels/numerics/normal.h"
#include "kernels/numerics/pattern.h"
#include "kernels/numerics/philox.h"
#include "kernels/numerics/unit_places.h"

namespace assay::inline kernels {

// This bit of the tensor word is flipped for the second word. Tensor ids are small, so they never
// set it.
inline constexpr std::uint32_t kSecondStream = 0x80000000;
inline constexpr std::int64_t kVaryPeriod = 64;

// How a fill rounds values beyond the format.
constexpr Overflow FillOverflow(DType t) {
  return StorageBits(t) <= 8 ? Overflow::kSatInfKeep : Overflow::kNonSat;
}

// Rounds a generated value to its code. Zeros and subnormals become +0; a NaN stays.
constexpr std::uint64_t RoundForFill(double v, DType t) {
  if (v == 0) return 0;
  if (t == DType::kF32) {
    // A conversion rounds to nearest even, too.
    const double magnitude = v < 0 ? -v : v;
    if (magnitude >= 0x1p-126 && magnitude <= 0x1.fffffep127) {
      return std::bit_cast<std::uint32_t>(static_cast<float>(v));
    }
  }
  const std::uint64_t code = RoundToFormat(v, t, FillOverflow(t));
  if (internal::IsInteger(t)) return code;
  const internal::Layout f = internal::LayoutOf(t);
  if (f.fnuz && code == f.nan_code) return code;
  const std::uint64_t magnitude = code & ((std::uint64_t{1} << f.sign_bit) - 1);
  return magnitude >> (f.shift + f.mantissa_bits) == 0 ? 0 : code;
}

// DrawsFirst: whether a kind takes the word x. DrawsSecond: whether it takes y, too, in formats
// other than fp64.
constexpr bool DrawsFirst(PatternKind kind) {
  switch (kind) {
    case PatternKind::kNormal:
    case PatternKind::kUniform:
    case PatternKind::kIntegers:
    case PatternKind::kSparse:
    case PatternKind::kAllPositive:
    case PatternKind::kExtremes:
    case PatternKind::kLargeSmall:
    case PatternKind::kDenormal:
    case PatternKind::kNearConstant:
    case PatternKind::kBernoulli:
    case PatternKind::kExactSparse:
    case PatternKind::kExactInts:
    case PatternKind::kEveryCode:
      return true;
    default:
      return false;
  }
}
constexpr bool DrawsSecond(PatternKind kind) {
  return kind == PatternKind::kSparse || kind == PatternKind::kExtremes;
}

namespace internal {

ASSAY_HOST_DEVICE inline float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ASSAY_HOST_DEVICE inline double Fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

// The random numbers of one element, in float, or in double for fp64. `c` is the table of
// coefficients for NormalFromWord.
template <class F>
struct Draws;
template <>
struct Draws<float> {
  template <class C>
  ASSAY_HOST_DEVICE static float Normal(std::uint32_t x, std::uint32_t, const C& c) {
    return NormalFromWord(x, c);
  }
  ASSAY_HOST_DEVICE static float Uniform(std::uint32_t x, std::uint32_t) {
    return UniformFromWord(x);
  }
};
template <>
struct Draws<double> {
  // n·(1 + y·2^-56): y fills the bits below those of the float.
  template <class C>
  ASSAY_HOST_DEVICE static double Normal(std::uint32_t x, std::uint32_t y, const C& c) {
    const double n = static_cast<double>(NormalFromWord(x, c));
    return Fma(n, static_cast<double>(y) * 0x1p-56, n);
  }
  // 24 bits of x and 29 bits of y. Both terms and their sum are exact.
  ASSAY_HOST_DEVICE static double Uniform(std::uint32_t x, std::uint32_t y) {
    return static_cast<double>(x >> 8) * 0x1p-24 + static_cast<double>(y >> 3) * 0x1p-53;
  }
};

}  // namespace internal

// The range of kIntegers: its lowest integer, and how many integers it has (1 … 2^32).
struct IntegerRange {
  std::int64_t lo;
  std::uint64_t count;
};
constexpr IntegerRange IntegersOf(const Pattern& p) {
  const auto lo = static_cast<std::int64_t>(p.a);
  const auto hi = static_cast<std::int64_t>(p.b);
  return {lo, static_cast<std::uint64_t>(hi - lo) + 1};
}

// The value of a kind that draws, before rounding. Not for kinds that draw codes or integers. F is
// float, or double for fp64. `col` matters for large-small alone. `c` is the table of coefficients
// for NormalFromWord.
template <class F, class C>
ASSAY_HOST_DEVICE F DrawnValue(const Pattern& p, std::uint32_t x, std::uint32_t y, std::int64_t col,
                               const C& c) {
  using internal::Fma;
  using D = internal::Draws<F>;
  const F a = static_cast<F>(p.a);
  const F b = static_cast<F>(p.b);
  switch (p.kind) {
    case PatternKind::kNormal:
      return Fma(a, D::Normal(x, y, c), b);
    case PatternKind::kUniform: {
      const F v = Fma(D::Uniform(x, y), b - a, a);
      return v < b ? v : std::nextafter(b, a);
    }
    case PatternKind::kSparse:
      return UniformFromWord(y) < static_cast<float>(p.a) ? b * D::Normal(x, y, c) : F{0};
    case PatternKind::kAllPositive:
      return std::fabs(a * D::Normal(x, y, c));
    case PatternKind::kExtremes:
      return Fma(b, D::Normal(x, y, c), (y >> 31) != 0 ? -a : a);
    case PatternKind::kNearConstant:
      return Fma(b, D::Normal(x, y, c), a);
    case PatternKind::kLargeSmall:
      return col == 0 ? a : col == 1 ? -a : D::Normal(x, y, c);
    case PatternKind::kBernoulli:
      return UniformFromWord(x) < static_cast<float>(p.a) ? F{1} : F{0};
    case PatternKind::kExactSparse:
      if (!(UniformFromWord(x) < static_cast<float>(p.a))) return F{0};
      return (x & 1) != 0 ? F{-1} : F{1};
    case PatternKind::kExactInts:
      return UniformFromWord(x << 8) < static_cast<float>(p.a)
                 ? static_cast<F>(1 + (x >> (32 - static_cast<int>(p.b))))
                 : F{0};
    default:
      return F{0};
  }
}

// The same on the host.
template <class F>
F DrawnValue(const Pattern& p, std::uint32_t x, std::uint32_t y, std::int64_t col) {
  return DrawnValue<F>(p, x, y, col, kNormalCoefficients);
}

// The code of a subnormal number of the format, from the words of an element. It is 0 for integers.
constexpr std::uint64_t DenormalBits(DType t, std::uint32_t x, std::uint32_t y) {
  if (internal::IsInteger(t)) return 0;
  const internal::Layout f = internal::LayoutOf(t);
  std::uint64_t code = 0;
  if (t == DType::kF64) {
    code = (std::uint64_t{x} << 20) | (y >> 12);
    if (code == 0) code = 1;
  } else {
    const std::uint64_t codes = (std::uint64_t{1} << f.mantissa_bits) - 1;
    code = 1 + ((x * codes) >> 32);
  }
  return (code << f.shift) | (std::uint64_t{x & 1} << f.sign_bit);
}

// The code of a finite number of an 8-bit format, from the word of an element.
constexpr std::uint64_t FiniteCode(DType t, std::uint32_t x) {
  constexpr std::uint64_t kSign = 0x80, kTopExponentBit = 0x40;
  const internal::Layout f = internal::LayoutOf(t);
  const std::uint64_t code = x >> 24;
  const bool finite = f.fnuz ? code != f.nan_code : (code & ~kSign) <= f.max_code;
  return finite ? code : code ^ kTopExponentBit;
}

// The code of an element of a kind that draws, from its words. `c` as above.
template <class C>
ASSAY_HOST_DEVICE std::uint64_t DrawnBits(const Pattern& p, DType t, std::uint32_t x,
                                          std::uint32_t y, std::int64_t col, const C& c) {
  if (p.kind == PatternKind::kDenormal) return DenormalBits(t, x, y);
  if (p.kind == PatternKind::kEveryCode) return FiniteCode(t, x);
  if (p.kind == PatternKind::kIntegers) {
    const IntegerRange r = IntegersOf(p);
    const auto step = static_cast<std::int64_t>((x * r.count) >> 32);
    return RoundForFill(static_cast<double>(r.lo + step), t);
  }
  if (t == DType::kF64) return RoundForFill(DrawnValue<double>(p, x, y, col, c), t);
  return RoundForFill(static_cast<double>(DrawnValue<float>(p, x, y, col, c)), t);
}

// The code of an element of a kind that does not draw, from its value. A -0 that `one-hot` names
// stays: it is the only -0 of all data.
ASSAY_HOST_DEVICE inline std::uint64_t PlacedBits(const Pattern& p, double v, DType t) {
  if (p.kind == PatternKind::kOneHot && v == 0) return RoundToFormat(v, t);
  return RoundForFill(v, t);
}

// The value of a kind that does not draw, before rounding.
ASSAY_HOST_DEVICE inline double PlacedValue(const Pattern& p, std::int64_t index, std::int64_t row,
                                            std::int64_t col, std::int64_t cols) {
  switch (p.kind) {
    case PatternKind::kConstant:
      return p.a;
    case PatternKind::kOnes:
      return 1.0;
    case PatternKind::kDiagonal:
      return row == col ? 1.0 : 0.0;
    case PatternKind::kCheckerboard:
      return ((row + col) & 1) != 0 ? -1.0 : 1.0;
    case PatternKind::kOneHot:
      return col == row % cols ? p.a : p.b;
    case PatternKind::kSequential:
      return p.a * (static_cast<double>(index % static_cast<std::int64_t>(p.b)) / kSequentialUnit);
    case PatternKind::kRowVary:
      return p.a * static_cast<double>(row % kVaryPeriod);
    case PatternKind::kColVary:
      return p.a * static_cast<double>(col % kVaryPeriod);
    case PatternKind::kOneLarge:
      return col == LargeColumn(p, cols) ? p.a : 0.0;
    case PatternKind::kAllInf:
      return HUGE_VAL;
    case PatternKind::kAllNegInf:
      return -HUGE_VAL;
    default:
      return 0.0;
  }
}

// Returns the elements of one tensor, in any order. Ascending order is fastest, because the last
// Philox block is kept. `rows` and `cols` are those of the tensor's Extents.
class Generator {
 public:
  Generator(const Pattern& pattern, std::uint64_t seed, std::uint32_t tensor_id,
            std::uint32_t epoch, std::int64_t rows, std::int64_t cols, DType dtype)
      : pattern_(pattern),
        seed_(seed),
        tensor_id_(tensor_id),
        epoch_(epoch),
        rows_(rows),
        cols_(cols),
        dtype_(dtype),
        first_(DrawsFirst(pattern.kind)),
        second_(first_ && (DrawsSecond(pattern.kind) || dtype == DType::kF64)) {}

  // The code of element `index` in logical order.
  std::uint64_t Bits(std::int64_t index) {
    if (first_) {
      Fetch(index);
      const std::int64_t col = pattern_.kind == PatternKind::kLargeSmall ? index % cols_ : 0;
      return DrawnBits(pattern_, dtype_, x_[index & 3], y_[index & 3], col, kNormalCoefficients);
    }
    return PlacedBits(pattern_, Placed(index, index / cols_, index % cols_), dtype_);
  }

  double Value(std::int64_t index) { return ToDouble(dtype_, Bits(index)); }

 private:
  // `row` counts the rows of all batches: [batch·rows].
  double Placed(std::int64_t index, std::int64_t row, std::int64_t col) {
    if (IsUnits(pattern_.kind)) {
      if (!units_) units_.emplace(pattern_, rows_, cols_);
      return units_->IsOne(row, col) ? UnitValue(pattern_, dtype_) : UnitRest(pattern_);
    }
    if (IsKeyGroups(pattern_.kind)) return KeyGroupsValue(row, col);
    return PlacedValue(pattern_, index, row % rows_, col, cols_);
  }

  double KeyGroupsValue(std::int64_t row, std::int64_t col) {
    if (pattern_.kind == PatternKind::kKeyMask) {
      if (!mask_) mask_.emplace(rows_, cols_, pattern_.a != 0);
      return mask_->Keeps(row % rows_, col) ? 1.0 : 0.0;
    }
    if (row != coded_row_) {
      if (!coded_) coded_.emplace(pattern_, rows_, cols_);
      coded_row_ = row;
      code_ = coded_->Code(row / rows_, row % rows_);
      first_element_ = coded_->First() * pattern_.a;
    }
    if (col == 0 && first_element_ != 0) return first_element_;
    for (int i = 0; i < code_.weight; ++i) {
      if (code_.at[i] == col) return code_.negative[i] ? -pattern_.a : pattern_.a;
    }
    return 0.0;
  }

  void Fetch(std::int64_t index) {
    const std::int64_t block = index >> 2;
    if (block == block_) return;
    block_ = block;
    x_ = PhiloxAt(seed_, tensor_id_, epoch_, static_cast<std::uint64_t>(block));
    if (second_) {
      y_ = PhiloxAt(seed_, tensor_id_ ^ kSecondStream, epoch_, static_cast<std::uint64_t>(block));
    }
  }

  Pattern pattern_;
  std::uint64_t seed_;
  std::uint32_t tensor_id_;
  std::uint32_t epoch_;
  std::int64_t rows_;
  std::int64_t cols_;
  DType dtype_;
  bool first_;
  bool second_;
  std::int64_t block_ = -1;
  std::optional<UnitPlaces> units_;
  std::optional<KeyGroups> mask_;
  std::optional<CodedRows> coded_;
  std::int64_t coded_row_ = -1;
  GroupCode code_;
  double first_element_ = 0;  // of the coded row; 0: it is of the code
  PhiloxBlock x_ = {};
  PhiloxBlock y_ = {};
};

// The code of one element. For many elements a Generator is faster.
inline std::uint64_t GenerateElement(const Pattern& pattern, std::uint64_t seed,
                                     std::uint32_t tensor_id, std::uint32_t epoch,
                                     std::int64_t index, std::int64_t rows, std::int64_t cols,
                                     DType dtype) {
  return Generator(pattern, seed, tensor_id, epoch, rows, cols, dtype).Bits(index);
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_GENERATE_H_
