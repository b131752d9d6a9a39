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

TEST(UnitPlaces, PixelsHaveOneChannelOfEachGroup) {
  constexpr std::int64_t kImages = 3, kChannels = 12, kGroup = 4, kPixels = 70, kDistance = 9;
  for (const bool last : {false, true}) {
    const UnitPlaces units(UnitPixels(kDistance, kChannels, kGroup, last), kImages,
                           kChannels * kPixels);
    std::set<std::int64_t> seen;
    for (std::int64_t image = 0; image < kImages; ++image) {
      for (std::int64_t pixel = 0; pixel < kPixels; ++pixel) {
        for (std::int64_t group = 0; group < kChannels / kGroup; ++group) {
          int ones = 0;
          for (std::int64_t c = group * kGroup; c < (group + 1) * kGroup; ++c) {
            const bool one = units.IsOne(image, last ? pixel * kChannels + c : c * kPixels + pixel);
            if (one) seen.insert(c - group * kGroup);
            ones += one;
          }
          EXPECT_EQ(ones, pixel % kDistance == 0 ? 1 : 0) << pixel;
        }
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kGroup)) << "some channel never has a 1";
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

}  // namespace
}  // namespace assay
