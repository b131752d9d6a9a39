// Defines the data of the significand probes: operands of a product that hold 0 and single 1s, so
// that each sum has one product that is not 0. That product is an element of the other operand.
//
//   unit-rows      each row has one 1
//   unit-columns   each column has one 1
//   unit-pixels    pixels of an image, far enough apart that no filter covers two, have a 1 in one
//                  channel of each group
//
// Where the 1 of a line lies: its number times the golden section, modulo 1, times the line's
// length. So the lines' 1s are spread evenly, however many lines there are.
//
// std-only, for host and device.
#ifndef ASSAY_KERNELS_NUMERICS_UNIT_PLACES_H_
#define ASSAY_KERNELS_NUMERICS_UNIT_PLACES_H_

#include <cstdint>

#include "kernels/numerics/pattern.h"

namespace assay {

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

// What the other operand holds: random numbers that use every bit of a significand. The generator's
// numbers have 24 bits in fp32, so those from 1 to 2 are multiples of 2^-23 without a rounding.
inline constexpr Pattern kFullSignificands = {PatternKind::kUniform, 1, 3};

// The most channels that UnitPixels can say.
inline constexpr std::int64_t kMostUnitChannels = std::int64_t{1} << 26;

constexpr Pattern UnitRows() { return {PatternKind::kUnitRows, 0, 0}; }
constexpr Pattern UnitColumns() { return {PatternKind::kUnitColumns, 0, 0}; }
// Rows are images of `channels` channels in groups of `group_channels`, stored behind the pixels
// they belong to (channels_last) or plane by plane. `distance` pixels in memory order lie between
// two that have 1s.
constexpr Pattern UnitPixels(std::int64_t distance, std::int64_t channels,
                             std::int64_t group_channels, bool channels_last) {
  const double packed = static_cast<double>(channels - 1) * static_cast<double>(kMostUnitChannels) +
                        static_cast<double>(group_channels - 1);
  return {PatternKind::kUnitPixels, static_cast<double>(channels_last ? -distance : distance),
          packed};
}

// Where the 1s of a tensor [batch, rows, cols] are.
class UnitPlaces {
 public:
  constexpr UnitPlaces(const Pattern& pattern, std::int64_t rows, std::int64_t cols)
      : kind_(pattern.kind), rows_(rows), cols_(cols) {
    if (kind_ != PatternKind::kUnitPixels) return;
    channels_last_ = pattern.a < 0;
    distance_ = static_cast<std::int64_t>(channels_last_ ? -pattern.a : pattern.a);
    const auto packed = static_cast<std::int64_t>(pattern.b);
    channels_ = packed / kMostUnitChannels + 1;
    group_channels_ = packed % kMostUnitChannels + 1;
    pixels_ = cols_ / channels_;
    marked_ = (pixels_ + distance_ - 1) / distance_;
  }

  // `row` counts the rows of all batches.
  constexpr bool IsOne(std::int64_t row, std::int64_t col) const {
    switch (kind_) {
      case PatternKind::kUnitRows:
        return col == PlaceInRow(row);
      case PatternKind::kUnitColumns:
        return row % rows_ == SpreadPlace(row / rows_ * cols_ + col, rows_);
      default: {
        const std::int64_t pixel = channels_last_ ? col / channels_ : col % pixels_;
        if (pixel % distance_ != 0) return false;
        const std::int64_t channel = channels_last_ ? col % channels_ : col / pixels_;
        return channel % group_channels_ ==
               SpreadPlace(row * marked_ + pixel / distance_, group_channels_);
      }
    }
  }

  // The column of a row's 1, of unit-rows.
  constexpr std::int64_t PlaceInRow(std::int64_t row) const { return SpreadPlace(row, cols_); }

 private:
  PatternKind kind_;
  std::int64_t rows_;
  std::int64_t cols_;
  bool channels_last_ = false;
  std::int64_t distance_ = 1;
  std::int64_t channels_ = 1;
  std::int64_t group_channels_ = 1;
  std::int64_t pixels_ = 1;
  std::int64_t marked_ = 1;  // pixels of an image that have 1s
};

}  // namespace assay

#endif  // ASSAY_KERNELS_NUMERICS_UNIT_PLACES_H_
