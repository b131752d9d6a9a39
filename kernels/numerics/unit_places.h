// Defines the data of the significand probes: operands of a product that hold 0 and single 1s, so
// that each sum has one product that is not 0. That product is an element of the other operand.
//
//   unit-rows      each row has one 1
//   unit-columns   each column has one 1
//   unit-pixels    pixels of an image, on a lattice so wide that no filter covers two, have a large
//                  power of two in one channel of each group
//
// Where the 1 of a line lies: its number times the golden section, modulo 1, times the line's
// length. So the lines' 1s are spread evenly, however many lines there are.
//
// Rows and columns may hold another value in place of the 1s, and rows one in place of the 0s. The
// 1s of columns may all lie in the first or in the last row.
//
// std-only, for host and device.
#ifndef ASSAY_KERNELS_NUMERICS_UNIT_PLACES_H_
#define ASSAY_KERNELS_NUMERICS_UNIT_PLACES_H_

#include <cstdint>

#include "kernels/numerics/pattern.h"

namespace assay::inline kernels {

constexpr bool IsUnits(PatternKind kind) {
  return kind == PatternKind::kUnitRows || kind == PatternKind::kUnitColumns ||
         kind == PatternKind::kUnitPixels;
}

// The place of line `i` in [0, length), length <= 2^32.
constexpr std::int64_t SpreadPlace(std::int64_t i, std::int64_t length) {
  constexpr std::uint32_t kGoldenSection = 0x9e3779b9;  // 2^32 times it
  const std::uint32_t at = static_cast<std::uint32_t>(i) * kGoldenSection;
  return static_cast<std::int64_t>(
      (static_cast<std::uint64_t>(at) * static_cast<std::uint64_t>(length)) >> 32);
}

// What the other operand holds, in formats of 16 bits or more: random numbers that use every bit of
// a significand. The generator's numbers have 24 bits in fp32, so those from 1 to 2 are multiples
// of 2^-23 without a rounding.
inline constexpr Pattern kFullSignificands = {PatternKind::kUniform, 1, 3};
// The probes hold them far below 1 (ops/common/probe_data.h). And in 8-bit floats, where data of
// other cases reach neither the smallest numbers nor the largest.
inline constexpr Pattern kEveryFiniteNumber = {PatternKind::kEveryCode, 0, 0};

// A power of two so large that numbers of a format that are as small are below what fp16 holds. In
// fp16 they are its smallest normal ones. In formats of 8 bits it is 1.
inline constexpr double kLargeUnit = 0x1p30;
constexpr double LargeUnit(DType t) {
  if (t == DType::kF16) return 0x1p14;
  return StorageBits(t) >= 16 && t != DType::kI32 ? kLargeUnit : 1;
}

constexpr Pattern UnitRows(double value = 1, double rest = 0) {
  return {PatternKind::kUnitRows, value, rest};
}
constexpr Pattern UnitColumns(double value = 1) { return {PatternKind::kUnitColumns, value, 0}; }
// Columns whose 1s all lie in one row have one of these as b.
inline constexpr double kInLastRow = 1, kInFirstRow = 2;
constexpr Pattern UnitLastRow(double value) {
  return {PatternKind::kUnitColumns, value, kInLastRow};
}
constexpr Pattern UnitFirstRow(double value) {
  return {PatternKind::kUnitColumns, value, kInFirstRow};
}

// What the places of a unit pattern hold, and what all other elements are.
constexpr double UnitValue(const Pattern& p, DType t) {
  return p.kind == PatternKind::kUnitPixels ? LargeUnit(t) : p.a;
}
constexpr double UnitRest(const Pattern& p) { return p.kind == PatternKind::kUnitRows ? p.b : 0; }

// A number whose significand is used to its last bits in every format. 2^-14 times it is below
// 1e-4.
inline constexpr double kFullSignificand = 0x1.5555555555555p0;

// Images, one a row of the operand, and the lattice of their pixels that have a 1. Axes are the
// outermost first: planes, rows, columns of pixels.
struct UnitLattice {
  std::int64_t height = 1, width = 1;  // rows and columns
  std::int64_t channels = 1;
  std::int64_t group_channels = 1;   // one of them has the 1, in each group
  std::int64_t step[3] = {1, 1, 1};  // of the lattice in each axis; 0: it is one pixel wide
  bool channels_last = false;        // channels lie together, or else pixels do
};

inline constexpr std::int64_t kMostUnitExtent = std::int64_t{1} << 26;    // height and width
inline constexpr std::int64_t kMostUnitChannels = std::int64_t{1} << 16;  // channels
inline constexpr std::int64_t kMostUnitStep = 127;

constexpr Pattern UnitPixels(const UnitLattice& u) {
  const std::int64_t extents = (u.height - 1) * kMostUnitExtent + (u.width - 1) + 1;
  std::int64_t rest = (u.channels - 1) * kMostUnitChannels + (u.group_channels - 1);
  for (const std::int64_t step : u.step) rest = rest * (kMostUnitStep + 1) + step;
  return {PatternKind::kUnitPixels, static_cast<double>(u.channels_last ? -extents : extents),
          static_cast<double>(rest)};
}

constexpr UnitLattice LatticeOf(const Pattern& pattern) {
  UnitLattice u;
  u.channels_last = pattern.a < 0;
  const auto extents = static_cast<std::int64_t>(u.channels_last ? -pattern.a : pattern.a) - 1;
  u.height = extents / kMostUnitExtent + 1;
  u.width = extents % kMostUnitExtent + 1;
  auto rest = static_cast<std::int64_t>(pattern.b);
  for (int axis = 2; axis >= 0; --axis) {
    u.step[axis] = rest % (kMostUnitStep + 1);
    rest /= kMostUnitStep + 1;
  }
  u.channels = rest / kMostUnitChannels + 1;
  u.group_channels = rest % kMostUnitChannels + 1;
  return u;
}

// Where the 1s of a tensor [batch, rows, cols] are.
class UnitPlaces {
 public:
  constexpr UnitPlaces(const Pattern& pattern, std::int64_t rows, std::int64_t cols)
      : kind_(pattern.kind),
        rows_(rows),
        cols_(cols),
        in_row_(pattern.kind == PatternKind::kUnitColumns ? pattern.b : 0) {
    if (kind_ != PatternKind::kUnitPixels) return;
    lattice_ = LatticeOf(pattern);
    pixels_ = cols_ / lattice_.channels;
  }

  // `row` counts the rows of all batches.
  constexpr bool IsOne(std::int64_t row, std::int64_t col) const {
    switch (kind_) {
      case PatternKind::kUnitRows:
        return col == PlaceInRow(row);
      case PatternKind::kUnitColumns:
        return row % rows_ == PlaceInColumn(row / rows_, col);
      default:
        return lattice_.channels_last
                   ? IsOnePixel(row, col / lattice_.channels, col % lattice_.channels)
                   : IsOnePixel(row, col % pixels_, col / pixels_);
    }
  }

  // The column of a row's 1, of unit-rows.
  constexpr std::int64_t PlaceInRow(std::int64_t row) const { return SpreadPlace(row, cols_); }
  // The row of a column's 1, of unit-columns.
  constexpr std::int64_t PlaceInColumn(std::int64_t batch, std::int64_t col) const {
    if (in_row_ == kInLastRow) return rows_ - 1;
    return in_row_ == kInFirstRow ? 0 : SpreadPlace(batch * cols_ + col, rows_);
  }

  // Calls f(col) for each 1 in columns [begin, end) of an image, of unit-pixels.
  template <class F>
  constexpr void ForEachPixel(std::int64_t image, std::int64_t begin, std::int64_t end,
                              F&& f) const {
    const UnitLattice& u = lattice_;
    if (u.channels_last) {
      LatticePixels(image, begin / u.channels, (end - 1) / u.channels + 1, [&](std::int64_t pixel) {
        const std::int64_t place = Channel(image, pixel);
        for (std::int64_t c = place; c < u.channels; c += u.group_channels) {
          const std::int64_t col = pixel * u.channels + c;
          if (col >= begin && col < end) f(col);
        }
      });
      return;
    }
    for (std::int64_t col = begin; col < end;) {
      const std::int64_t channel = col / pixels_;
      const std::int64_t first = channel * pixels_;
      const std::int64_t last = first + pixels_ < end ? first + pixels_ : end;
      LatticePixels(image, col - first, last - first, [&](std::int64_t pixel) {
        if (Channel(image, pixel) == channel % u.group_channels) f(first + pixel);
      });
      col = last;
    }
  }

 private:
  constexpr bool IsOnePixel(std::int64_t image, std::int64_t pixel, std::int64_t channel) const {
    const std::int64_t row = pixel / lattice_.width;
    return OnLattice(image, 0, row / lattice_.height) &&
           OnLattice(image, 1, row % lattice_.height) &&
           OnLattice(image, 2, pixel % lattice_.width) &&
           channel % lattice_.group_channels == Channel(image, pixel);
  }

  // The channel, within its group, of a pixel's 1.
  constexpr std::int64_t Channel(std::int64_t image, std::int64_t pixel) const {
    return SpreadPlace(image * pixels_ + pixel, lattice_.group_channels);
  }

  constexpr std::int64_t Extent(int axis) const {
    if (axis == 0) return pixels_ / (lattice_.height * lattice_.width);
    return axis == 1 ? lattice_.height : lattice_.width;
  }
  // The lattice's step in an axis: the whole extent if it is one pixel wide.
  constexpr std::int64_t Step(int axis) const {
    const std::int64_t step = lattice_.step[axis], extent = Extent(axis);
    return step > 0 && step < extent ? step : extent;
  }
  // Each image has a lattice that begins elsewhere.
  constexpr std::int64_t First(std::int64_t image, int axis) const {
    return SpreadPlace(image, Step(axis));
  }
  constexpr bool OnLattice(std::int64_t image, int axis, std::int64_t at) const {
    return at % Step(axis) == First(image, axis);
  }

  // Calls f(pixel) for each pixel of the lattice in [begin, end).
  template <class F>
  constexpr void LatticePixels(std::int64_t image, std::int64_t begin, std::int64_t end,
                               F&& f) const {
    const std::int64_t width = lattice_.width, step = Step(2);
    for (std::int64_t row = begin / width; row * width < end; ++row) {
      if (!OnLattice(image, 0, row / lattice_.height) ||
          !OnLattice(image, 1, row % lattice_.height)) {
        continue;
      }
      for (std::int64_t x = First(image, 2); x < width; x += step) {
        const std::int64_t pixel = row * width + x;
        if (pixel >= begin && pixel < end) f(pixel);
      }
    }
  }

  PatternKind kind_;
  std::int64_t rows_;
  std::int64_t cols_;
  double in_row_ = 0;  // of unit-columns: kInLastRow, kInFirstRow
  UnitLattice lattice_;
  std::int64_t pixels_ = 1;  // of an image
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_UNIT_PLACES_H_
