// The specification of input data: values worked out by hand, ranges, moments.
#include "kernels/numerics/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/numerics/poison.h"

namespace assay {
namespace {

constexpr DType kAll[] = {DType::kF64,      DType::kF32,    DType::kTF32,     DType::kF16,
                          DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2,
                          DType::kE5M2FNUZ, DType::kE2M1,   DType::kI8,       DType::kI32};

Pattern Parse(const std::string& text) {
  std::string error;
  const auto pattern = ParsePattern(text, &error);
  EXPECT_TRUE(pattern.has_value()) << error;
  return pattern.value_or(Pattern{});
}

std::vector<double> Take(const std::string& text, std::int64_t rows, std::int64_t cols,
                         DType dtype = DType::kF32) {
  Generator g(Parse(text), 1, 0, 0, rows, cols, dtype);
  std::vector<double> out;
  for (std::int64_t i = 0; i < rows * cols; ++i) out.push_back(g.Value(i));
  return out;
}

TEST(Generate, PlacedKinds) {
  using V = std::vector<double>;
  EXPECT_EQ(Take("constant:2.5", 1, 3), (V{2.5, 2.5, 2.5}));
  EXPECT_EQ(Take("zeros", 1, 2), (V{0, 0}));
  EXPECT_EQ(Take("ones", 1, 2), (V{1, 1}));
  EXPECT_EQ(Take("diagonal", 2, 3), (V{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(Take("checkerboard", 2, 3), (V{1, -1, 1, -1, 1, -1}));
  EXPECT_EQ(Take("one-hot:4", 3, 2), (V{4, 0, 0, 4, 4, 0}));
  EXPECT_EQ(Take("one-hot:4:-2", 3, 2), (V{4, -2, -2, 4, 4, -2}));
  EXPECT_TRUE(std::isnan(Take("one-hot:nan:1", 3, 2)[3]));
  EXPECT_TRUE(std::signbit(Take("one-hot:0:-0", 3, 2)[1])) << "the only -0 of all data";
  EXPECT_FALSE(std::signbit(Take("row-vary:-1", 3, 2)[0]));
  EXPECT_EQ(Take("row-vary:0.5", 3, 2), (V{0, 0, 0.5, 0.5, 1, 1}));
  EXPECT_EQ(Take("col-vary:0.5", 2, 3), (V{0, 0.5, 1, 0, 0.5, 1}));
  EXPECT_EQ(Take("one-large:7", 2, 2), (V{7, 0, 7, 0}));
  EXPECT_EQ(Take("one-large:7:-1", 2, 2), (V{0, 7, 0, 7}));
  EXPECT_EQ(Take("one-large:7:2", 2, 2), (V{0, 0, 0, 0}));
  EXPECT_EQ(Take("sequential:1024", 1, 1026)[1025], 1.0);  // period 1024
  EXPECT_EQ(Take("all-inf", 1, 1), (V{HUGE_VAL}));
  EXPECT_EQ(Take("all-neg-inf", 1, 1), (V{-HUGE_VAL}));
  EXPECT_EQ(Take("large-small:9", 2, 3)[3], 9.0);
  EXPECT_EQ(Take("large-small:9", 2, 3)[4], -9.0);
}

// Rows are counted within a batch.
TEST(Generate, RowsStartAnewInEachBatch) {
  Generator g(Parse("diagonal"), 1, 0, 0, 2, 2, DType::kF32);
  EXPECT_EQ(g.Value(4), 1.0);
  EXPECT_EQ(g.Value(5), 0.0);
}

TEST(Generate, NormalIsTheWordsNormalInEveryOrder) {
  Generator g(Pattern{}, 77, 3, 2, 1, 100, DType::kF32);
  for (const std::int64_t i : {99, 0, 50, 51, 3, 4}) {
    EXPECT_EQ(g.Value(i), NormalFromWord(PhiloxWord(77, 3, 2, i)));
    EXPECT_EQ(g.Bits(i), GenerateElement(Pattern{}, 77, 3, 2, i, 1, 100, DType::kF32));
  }
}

TEST(Generate, SeedTensorAndEpochEachChangeTheData) {
  const auto at = [](std::uint64_t seed, std::uint32_t tensor, std::uint32_t epoch) {
    return GenerateElement(Pattern{}, seed, tensor, epoch, 5, 1, 8, DType::kF32);
  };
  EXPECT_NE(at(1, 0, 0), at(2, 0, 0));
  EXPECT_NE(at(1, 0, 0), at(1ull << 32 | 1, 0, 0));
  EXPECT_NE(at(1, 0, 0), at(1, 1, 0));
  EXPECT_NE(at(1, 0, 0), at(1, 0, 1));
}

TEST(Generate, RangesAreHeld) {
  std::map<double, int> seen;
  for (const double v : Take("integers:-3:3", 1, 4000, DType::kI8)) ++seen[v];
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_EQ(seen.begin()->first, -3);
  EXPECT_EQ(seen.rbegin()->first, 3);
  for (const auto& [value, count] : seen) EXPECT_GT(count, 400) << value;
  for (const double v : Take("uniform:2:3", 1, 4000)) {
    EXPECT_GE(v, 2.0);
    EXPECT_LT(v, 3.0);
  }
  for (const double v : Take("uniform:-1:1", 1, 4000, DType::kF64)) {
    EXPECT_GE(v, -1.0);
    EXPECT_LT(v, 1.0);
  }
  for (const double v : Take("all-positive", 1, 1000)) EXPECT_GE(v, 0.0);
  for (const double v : Take("extremes:80:1", 1, 1000)) EXPECT_NEAR(std::fabs(v), 80, 7);
  for (const double v : Take("near-constant:100:0.001", 1, 1000)) EXPECT_NEAR(v, 100, 0.01);
  seen.clear();
  for (const double v : Take("exact-ints", 1, 1000, DType::kE4M3FN)) ++seen[v];
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_TRUE(seen.contains(1) && seen.contains(4));
}

// A uniform below hi stays below it where the fma rounds up to it.
TEST(Generate, UniformNeverReachesItsUpperEnd) {
  const Pattern p = Parse("uniform:16777215:16777216");
  EXPECT_LT(DrawnValue<float>(p, 0xffffffff, 0, 0), 16777216.0f);
}

TEST(Generate, DensitiesAndMoments) {
  int kept = 0;
  for (const double v : Take("sparse:0.2", 1, 20000)) kept += v != 0 ? 1 : 0;
  EXPECT_NEAR(kept, 4000, 300);
  int ones = 0;
  for (const double v : Take("bernoulli:0.7", 1, 20000, DType::kI8)) ones += static_cast<int>(v);
  EXPECT_NEAR(ones, 14000, 400);
  int plus = 0;
  int minus = 0;
  for (const double v : Take("exact-sparse:0.5", 1, 20000, DType::kF16)) {
    plus += v == 1 ? 1 : 0;
    minus += v == -1 ? 1 : 0;
  }
  EXPECT_NEAR(plus, 5000, 300);
  EXPECT_NEAR(minus, 5000, 300);
  double sum = 0;
  double squares = 0;
  for (const double v : Take("normal:3:1", 1, 20000)) {
    sum += v;
    squares += (v - 1) * (v - 1);
  }
  EXPECT_NEAR(sum / 20000, 1.0, 0.15);
  EXPECT_NEAR(squares / 20000, 9.0, 0.6);
  int positive = 0;
  for (const double v : Take("extremes:1000", 1, 10000)) positive += v > 0 ? 1 : 0;
  EXPECT_NEAR(positive, 5000, 300);
}

// fp64 data uses bits that a float does not have, and stays near the float's value.
TEST(Generate, DoublesAreFullyOccupied) {
  for (const char* text : {"normal", "uniform:-1:1", "sparse:0.9", "extremes:80"}) {
    int beyond_float = 0;
    for (const double v : Take(text, 1, 1000, DType::kF64)) {
      beyond_float += static_cast<double>(static_cast<float>(v)) != v ? 1 : 0;
    }
    EXPECT_GT(beyond_float, 850) << text;
  }
  const auto f64 = Take("normal", 1, 100, DType::kF64);
  const auto f32 = Take("normal", 1, 100, DType::kF32);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_NEAR(f64[i], f32[i], std::fabs(f32[i]) * 0x1p-23);
}

TEST(Generate, SubnormalsOnlyWhereAskedFor) {
  for (const DType t : kAll) {
    const FormatInfo& f = Info(t);
    Generator normals(Parse("normal:" + std::to_string(f.min_normal > 1e-6 ? f.min_normal : 1)), 1,
                      0, 0, 1, 2000, t);
    Generator denormals(Parse("denormal"), 1, 0, 0, 1, 2000, t);
    for (std::int64_t i = 0; i < 2000; ++i) {
      const double v = normals.Value(i);
      EXPECT_TRUE(v == 0 || std::fabs(v) >= f.min_normal) << f.name << " " << v;
      EXPECT_FALSE(v == 0 && std::signbit(v)) << f.name;
      const double d = std::fabs(denormals.Value(i));
      if (f.is_integer) {
        EXPECT_EQ(d, 0.0);
      } else {
        EXPECT_TRUE(d > 0 && d < f.min_normal) << f.name << " " << d;
      }
    }
  }
}

TEST(Generate, BeyondTheFormat) {
  const auto one = [](const char* text, DType t) { return Take(text, 1, 1, t)[0]; };
  EXPECT_EQ(one("constant:100000", DType::kF16), HUGE_VAL);
  EXPECT_EQ(one("constant:100000", DType::kE4M3FN), 448.0);
  EXPECT_EQ(one("constant:-100000", DType::kE5M2), -57344.0);
  EXPECT_EQ(one("constant:100", DType::kE2M1), 6.0);
  EXPECT_EQ(one("constant:1000", DType::kI8), 127.0);
  EXPECT_EQ(one("all-inf", DType::kE5M2), HUGE_VAL);
  EXPECT_TRUE(std::isnan(one("all-inf", DType::kE4M3FN)));
  EXPECT_EQ(one("all-neg-inf", DType::kI32), -2147483648.0);
}

TEST(Poison, SecondDiffersAndPayloadsAreSignallingNaNs) {
  for (const DType t : kAll) {
    EXPECT_NE(PoisonBits(t, Poison::kFirst), PoisonBits(t, Poison::kSecond)) << Name(t);
    const double large = Info(t).storage_bits == 4 ? 6 : 100;
    EXPECT_GE(ToDouble(t, PoisonBits(t, Poison::kHigh)), large) << Name(t);
    const double low = ToDouble(t, PoisonBits(t, Poison::kLow));
    EXPECT_LE(low, -large) << Name(t);
    EXPECT_TRUE(std::isfinite(low)) << Name(t);
    if (!HasPoisonPayload(t)) {
      const std::uint64_t mask = (std::uint64_t{1} << Info(t).storage_bits) - 1;
      EXPECT_EQ(PoisonBits(t, Poison::kFirst) ^ PoisonBits(t, Poison::kSecond), mask) << Name(t);
      continue;
    }
    for (const Poison poison : {Poison::kFirst, Poison::kSecond}) {
      const std::uint64_t bits = PoisonBits(t, poison);
      EXPECT_TRUE(IsNaNCode(t, bits)) << Name(t);
      const int quiet =
          Info(t).mantissa_bits == 10 && t == DType::kTF32 ? 22 : Info(t).mantissa_bits - 1;
      EXPECT_EQ((bits >> quiet) & 1, 0u) << Name(t);  // arithmetic returns quiet ones
    }
  }
}

}  // namespace
}  // namespace assay
