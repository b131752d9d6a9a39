// The built-in GPU softmax under the emulator, held to the softmax operator's bound at
// awkward sizes, and nothing outside its output written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/providers/builtin/divisor_gpu.h"
#include "kernels/providers/builtin/softmax_builtin_gpu.h"
#include "kernels/simt/engine.h"

namespace assay::inline kernels::gpu {
namespace {

struct Form {
  int wave;
  DType in;
  DType out;
};

class SimtSoftmax : public ::testing::TestWithParam<Form> {
 protected:
  SimtSoftmax() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam().wave;
    simt::TakeFaults();
  }
  ~SimtSoftmax() override { simt::CurrentConfig() = simt::Config{}; }

  // Fills x, launches, and returns y with what lies around it; x holds rounded values.
  void Run(std::int64_t rows, std::int64_t cols, std::int64_t pad, double shift) {
    const Form& f = GetParam();
    const std::int64_t ld = cols + pad;
    const auto bytes = [](DType t) { return static_cast<std::size_t>(StorageBytes(t, 1)); };
    // Of exactly this size, so that the address sanitizer sees the ends.
    std::vector<unsigned char> x(static_cast<std::size_t>(rows * ld) * bytes(f.in));
    std::vector<unsigned char> y(static_cast<std::size_t>(rows * ld) * bytes(f.out), 0xA5);
    std::mt19937_64 random(static_cast<std::uint64_t>(cols));
    std::normal_distribution<double> normal(shift, 3.0);
    for (std::int64_t i = 0; i < rows * ld; ++i) {
      StoreBits(f.in, x.data(), i, RoundToFormat(normal(random), f.in));
    }
    const SoftmaxRows launch{x.data(), y.data(), f.in, f.out, rows, cols, ld, ld};
    ASSERT_EQ(LaunchSoftmax(launch, nullptr), kOk);
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    // Depth of the sum: a thread's elements, then the threads'.
    const auto depth = static_cast<double>(cols / (cols <= 4096 ? 128 : 256) + 8);
    for (std::int64_t r = 0; r < rows; ++r) {
      double m = -HUGE_VAL;
      double s = 0;
      for (std::int64_t j = 0; j < cols; ++j)
        m = std::max(m, LoadDouble(f.in, x.data(), r * ld + j));
      for (std::int64_t j = 0; j < cols; ++j)
        s += std::exp(LoadDouble(f.in, x.data(), r * ld + j) - m);
      for (std::int64_t j = 0; j < cols; ++j) {
        const double v = LoadDouble(f.in, x.data(), r * ld + j);
        const double want = std::exp(v - m) / s;
        const double e = want * 0x1p-24 * (2 * std::abs(v - m) + 8 + depth);
        const FormatInfo& o = Info(f.out);
        const double bound = o.unit_roundoff * want + o.min_subnormal / 2 + 1.01 * e;
        const double got = LoadDouble(f.out, y.data(), r * ld + j);
        ASSERT_LE(std::abs(got - want), bound) << rows << "x" << cols << " at " << r << "," << j;
      }
      for (std::int64_t j = cols; j < ld; ++j) {
        for (std::size_t b = 0; b < bytes(f.out); ++b) {
          ASSERT_EQ(y[static_cast<std::size_t>(r * ld + j) * bytes(f.out) + b], 0xA5);
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(
    Forms, SimtSoftmax,
    ::testing::Values(Form{32, DType::kF32, DType::kF32}, Form{64, DType::kF32, DType::kF32},
                      Form{32, DType::kF16, DType::kF16}, Form{64, DType::kF16, DType::kF32},
                      Form{32, DType::kBF16, DType::kBF16}, Form{64, DType::kBF16, DType::kF32}));

TEST_P(SimtSoftmax, AwkwardSizesHoldTheBound) {
  for (const std::int64_t cols :
       {1, 2, 31, 32, 33, 63, 65, 255, 257, 1000, 1024, 1025, 4096, 4097, 4104}) {
    Run(2, cols, 0, 0.0);
  }
}

TEST_P(SimtSoftmax, PaddedRowsAreLeftAlone) {
  Run(3, 130, 7, 0.0);
  Run(3, 128, 16, 0.0);
}

TEST_P(SimtSoftmax, RowsTooLongForRegistersAreReadTwice) {
  Run(1, 8192, 0, 0.0);
  Run(1, 8193, 0, 0.0);
  Run(1, 8200, 8, 0.0);
  Run(2, 16384, 0, 0.0);
  Run(1, 16392, 0, 0.0);
  Run(2, 10000, 3, -2.0);
}

// exp of the inputs themselves would overflow.
TEST_P(SimtSoftmax, LargeInputsAreShifted) {
  Run(2, 300, 0, 1000.0);
  Run(1, 9000, 0, 1000.0);
}

TEST_P(SimtSoftmax, InfinitiesGiveNaNForTheWholeRowAndNoOther) {
  const Form& f = GetParam();
  for (const std::int64_t cols : {std::int64_t{40}, std::int64_t{8300}}) {
    for (const double filled : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      std::vector<unsigned char> x(static_cast<std::size_t>(2 * cols * StorageBytes(f.in, 1)));
      std::vector<unsigned char> y(static_cast<std::size_t>(2 * cols * StorageBytes(f.out, 1)));
      for (std::int64_t i = 0; i < 2 * cols; ++i) {
        StoreBits(f.in, x.data(), i, RoundToFormat(i < cols ? filled : 1.0, f.in));
      }
      ASSERT_EQ(LaunchSoftmax({x.data(), y.data(), f.in, f.out, 2, cols, cols, cols}, nullptr),
                kOk);
      for (std::int64_t i = 0; i < 2 * cols; ++i) {
        ASSERT_EQ(std::isnan(LoadDouble(f.out, y.data(), i)), i < cols) << filled << " at " << i;
      }
    }
  }
}

// A leading run of −inf is nothing, not NaN.
TEST_P(SimtSoftmax, MaskedElementsGetZero) {
  const Form& f = GetParam();
  for (const std::int64_t cols : {std::int64_t{600}, std::int64_t{9001}}) {
    std::vector<unsigned char> x(static_cast<std::size_t>(cols * StorageBytes(f.in, 1)));
    std::vector<unsigned char> y(static_cast<std::size_t>(cols * StorageBytes(f.out, 1)));
    for (std::int64_t i = 0; i < cols; ++i) {
      StoreBits(f.in, x.data(), i, RoundToFormat(i < cols - 4 ? -HUGE_VAL : 2.0, f.in));
    }
    ASSERT_EQ(LaunchSoftmax({x.data(), y.data(), f.in, f.out, 1, cols, cols, cols}, nullptr), kOk);
    for (std::int64_t i = 0; i < cols; ++i) {
      ASSERT_EQ(LoadDouble(f.out, y.data(), i), i < cols - 4 ? 0.0 : 0.25) << i;
    }
  }
}

TEST_P(SimtSoftmax, TheSameLaunchGivesTheSameBits) {
  const Form& f = GetParam();
  constexpr std::int64_t kCols = 777;
  std::vector<unsigned char> x(static_cast<std::size_t>(kCols * StorageBytes(f.in, 1)));
  for (std::int64_t i = 0; i < kCols; ++i) {
    StoreBits(f.in, x.data(), i, RoundToFormat(std::sin(static_cast<double>(i)), f.in));
  }
  std::vector<unsigned char> first;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    simt::CurrentConfig().seed = seed;
    std::vector<unsigned char> y(static_cast<std::size_t>(kCols * StorageBytes(f.out, 1)));
    ASSERT_EQ(LaunchSoftmax({x.data(), y.data(), f.in, f.out, 1, kCols, kCols, kCols}, nullptr),
              kOk);
    if (seed == 1) first = y;
    EXPECT_EQ(y, first);
  }
}

// As a division rounds it, next to the middle between two numbers above all, where the least
// error shows: s·(2m + 1) = a·2^k + e for small e, with s, m and a of 24 bits.
TEST(SimtDivisor, RoundsAsADivisionDoes) {
  std::mt19937 random(1);
  int tried = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto s = static_cast<std::uint32_t>((1U << 23) | (random() >> 9) | 1);
    std::uint32_t inverse = s;  // modulo 2^32, by Newton's iteration
    for (int n = 0; n < 5; ++n) inverse *= 2 - inverse * s;
    const Divisor by(static_cast<float>(s) * 0x1p-23F);
    for (const int k : {24, 25}) {
      for (int e = -5; e <= 5; ++e) {
        const std::uint64_t odd =
            (static_cast<std::uint32_t>(e) * inverse & ((1U << k) - 1)) | (k == 24 ? 1U << 24 : 0);
        const std::uint64_t a = (s * odd - static_cast<std::uint64_t>(e)) >> k;
        if (odd % 2 == 0 || odd < 1U << 24 || a < 1U << 23 || a >= 1U << 24) continue;
        const float dividend = static_cast<float>(a) * 0x1p-24F;
        ASSERT_EQ(by.Divide(dividend), dividend / (static_cast<float>(s) * 0x1p-23F))
            << a << " / " << s;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 10000);
}

TEST(SimtDivisor, NothingAndNaN) {
  EXPECT_EQ(Divisor(3.0F).Divide(0.0F), 0.0F);
  EXPECT_FALSE(std::signbit(Divisor(3.0F).Divide(0.0F)));
  EXPECT_EQ(Divisor(0x1p32F).Divide(1.0F), 0x1p-32F);
  EXPECT_TRUE(std::isnan(Divisor(3.0F).Divide(std::nanf(""))));
  EXPECT_TRUE(std::isnan(Divisor(std::nanf("")).Divide(0.0F)));
}

// Of what is less than the smallest normal number divided by 3, at most 3/4 of the smallest.
TEST(SimtDivisor, SubnormalQuotientsAreThreeQuartersOfTheSmallestNumberOff) {
  const Divisor by(3.0F);
  for (int i = 0; i < 10000; ++i) {
    const float a = static_cast<float>(i) * 0x1p-149F;
    ASSERT_LE(std::abs(static_cast<double>(by.Divide(a)) - static_cast<double>(a) / 3), 0x1.8p-150)
        << i;
  }
}

}  // namespace
}  // namespace assay::kernels::gpu
