// Operands of the significand probes: one 1 in each line, spread over the line, and pixels so far
// apart that no filter covers two.
#include "kernels/numerics/unit_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/numerics/generate.h"

namespace assay {
namespace {

TEST(UnitPlaces, EachLineHasASingleOneWhereverItLies) {
  constexpr std::int64_t kBatch = 3, kRows = 17, kCols = 29;
  const UnitPlaces rows(UnitRows(), kRows, kCols);
  const UnitPlaces columns(UnitColumns(), kRows, kCols);
  std::set<std::int64_t> of_first, of_second;  // places of the first two matrices
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      int ones = 0;
      for (std::int64_t col = 0; col < kCols; ++col) ones += rows.IsOne(b * kRows + row, col);
      EXPECT_EQ(ones, 1);
      EXPECT_TRUE(rows.IsOne(b * kRows + row, rows.PlaceInRow(b * kRows + row)));
      if (b < 2) (b == 0 ? of_first : of_second).insert(rows.PlaceInRow(b * kRows + row));
    }
    for (std::int64_t col = 0; col < kCols; ++col) {
      int ones = 0;
      for (std::int64_t row = 0; row < kRows; ++row) ones += columns.IsOne(b * kRows + row, col);
      EXPECT_EQ(ones, 1);
    }
  }
  EXPECT_NE(of_first, of_second) << "every matrix of a batch has the same 1s";
}

// A kernel may narrow one region of k alone: the longest stretch without a 1 must be short.
TEST(UnitPlaces, LinesSeeEveryRegion) {
  for (const std::int64_t lines : {32, 100, 1024}) {
    for (const std::int64_t length : {64, 1000, 65536}) {
      std::vector<std::int64_t> places = {0, length};
      for (std::int64_t i = 0; i < lines; ++i) {
        const std::int64_t at = SpreadPlace(i, length);
        ASSERT_TRUE(at >= 0 && at < length);
        places.push_back(at);
      }
      std::sort(places.begin(), places.end());
      std::int64_t longest = 0;
      for (std::size_t i = 1; i < places.size(); ++i) {
        longest = std::max(longest, places[i] - places[i - 1]);
      }
      EXPECT_LE(longest, 3 * length / lines + 1) << lines << " lines of " << length;
    }
  }
}

TEST(UnitPlaces, PixelsOfALatticeHaveOneChannelOfEachGroup) {
  constexpr std::int64_t kImages = 5, kPlanes = 2, kHeight = 9, kWidth = 11;
  constexpr std::int64_t kPixels = kPlanes * kHeight * kWidth;
  UnitLattice u{
      .height = kHeight, .width = kWidth, .channels = 12, .group_channels = 4, .step = {0, 3, 5}};
  for (const bool last : {false, true}) {
    u.channels_last = last;
    const UnitPlaces units(UnitPixels(u), kImages, u.channels * kPixels);
    std::set<std::int64_t> channels, firsts;
    for (std::int64_t image = 0; image < kImages; ++image) {
      std::vector<std::int64_t> marked;  // pixels with a 1
      for (std::int64_t pixel = 0; pixel < kPixels; ++pixel) {
        std::int64_t of_pixel = 0;
        for (std::int64_t c = 0; c < u.channels; ++c) {
          const std::int64_t at = last ? pixel * u.channels + c : c * kPixels + pixel;
          if (!units.IsOne(image, at)) continue;
          EXPECT_EQ(c / u.group_channels, of_pixel) << "one in each group";
          channels.insert(c % u.group_channels);
          ++of_pixel;
        }
        if (of_pixel == 0) continue;
        EXPECT_EQ(of_pixel, u.channels / u.group_channels);
        marked.push_back(pixel);
      }
      ASSERT_FALSE(marked.empty());
      // Part by part, as a fill goes.
      std::set<std::int64_t> found;
      constexpr std::int64_t kPart = 103;
      for (std::int64_t begin = 0; begin < u.channels * kPixels; begin += kPart) {
        const std::int64_t end = std::min(begin + kPart, u.channels * kPixels);
        units.ForEachPixel(image, begin, end, [&](std::int64_t col) {
          EXPECT_TRUE(col >= begin && col < end && units.IsOne(image, col)) << col;
          found.insert(col);
        });
      }
      EXPECT_EQ(found.size(), marked.size() * 3);
      firsts.insert(marked[0]);
      for (const std::int64_t a : marked) {
        for (const std::int64_t b : marked) {
          EXPECT_EQ(a / (kHeight * kWidth), b / (kHeight * kWidth));
          EXPECT_EQ((a / kWidth % kHeight - b / kWidth % kHeight) % 3, 0);
          EXPECT_EQ((a % kWidth - b % kWidth) % 5, 0);
        }
      }
      EXPECT_GE(marked.size(), 3u * 2u);
    }
    EXPECT_EQ(channels.size(), 4u) << "some channel never has a 1";
    EXPECT_GT(firsts.size(), 2u) << "all images have the same lattice";
  }
}

TEST(UnitPlaces, APatternHoldsALattice) {
  for (const bool last : {false, true}) {
    const UnitLattice u{.height = kMostUnitExtent,
                        .width = kMostUnitExtent,
                        .channels = kMostUnitChannels,
                        .group_channels = kMostUnitChannels,
                        .step = {kMostUnitStep, 0, kMostUnitStep},
                        .channels_last = last};
    const UnitLattice back = LatticeOf(UnitPixels(u));
    EXPECT_EQ(back.height, u.height);
    EXPECT_EQ(back.width, u.width);
    EXPECT_EQ(back.channels, u.channels);
    EXPECT_EQ(back.group_channels, u.group_channels);
    for (int axis = 0; axis < 3; ++axis) EXPECT_EQ(back.step[axis], u.step[axis]);
    EXPECT_EQ(back.channels_last, last);
  }
}

TEST(UnitPlaces, SignificandsUseEveryBit) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16}) {
    Generator generator(kFullSignificands, 1, 0, 0, 1, 4096, t);
    const FormatInfo& f = Info(t);
    int last_bit = 0;
    for (std::int64_t i = 0; i < 4096; ++i) {
      const double v = generator.Value(i);
      ASSERT_TRUE(v >= 1 && v <= LargestMagnitude(kFullSignificands));
      // Whether the last bit of the significand is set.
      const double half = std::ldexp(v, f.mantissa_bits - 1 - std::ilogb(v));
      last_bit += half != std::floor(half) ? 1 : 0;
    }
    EXPECT_GT(last_bit, 1400) << f.name;
    EXPECT_LT(last_bit, 2300) << f.name;
  }
}

// All codes but those of NaN and infinities, and no other.
TEST(UnitPlaces, EveryFiniteNumberOfAnEightBitFormatIsThere) {
  for (const DType t : {DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
    Generator generator(kEveryFiniteNumber, 1, 0, 0, 1, 8192, t);
    std::set<std::uint64_t> codes;
    for (std::int64_t i = 0; i < 8192; ++i) codes.insert(generator.Bits(i));
    std::size_t finite = 0;
    double largest = 0;
    for (std::uint64_t code = 0; code < 256; ++code) {
      const double v = ToDouble(t, code);
      EXPECT_EQ(codes.contains(code), std::isfinite(v)) << Name(t) << ' ' << code;
      if (!std::isfinite(v)) continue;
      ++finite;
      largest = std::max(largest, v);
    }
    EXPECT_EQ(codes.size(), finite);
    EXPECT_EQ(largest, Info(t).max_finite);
    EXPECT_LE(largest, LargestMagnitude(kEveryFiniteNumber));
  }
  EXPECT_EQ(FormatFault(kEveryFiniteNumber, DType::kE4M3FN), "");
  EXPECT_EQ(FormatFault(kEveryFiniteNumber, DType::kF16), "every-code: fp16 is no 8-bit float");
}

}  // namespace
}  // namespace assay
