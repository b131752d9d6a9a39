// The built-in GPU layer and RMS norm under the emulator, held to the operator's bound.
#include <cmath>
#include <random>

#include "kernels/providers/builtin/layer_norm_builtin_gpu.h"
#include "simt/testing.h"

namespace assay::inline kernels::gpu {
namespace {

struct Data {
  double mean = 0;
  double spread = 1;
  bool affine = false;
  bool rms = false;
  bool compensated = false;
  std::int64_t skipped = 0;  // weights and biases before the ones that are used
  bool narrow = false;       // weights and biases are in the format of x
};

class SimtNorm : public SimtTest {
 protected:
  void Check(std::int64_t rows, std::int64_t cols, std::int64_t pad, const Data& d) {
    const Form& f = GetParam();
    const std::int64_t ld = cols + pad;
    std::mt19937_64 random(static_cast<std::uint64_t>(cols + 7 * pad));
    std::normal_distribution<double> normal(0.0, 1.0);
    HostTensor x(f.in, rows * ld, [&](std::int64_t) { return d.mean + d.spread * normal(random); });
    const DType columns = d.narrow ? f.in : DType::kF32;
    HostTensor weight(columns, d.skipped + cols, [&](std::int64_t) { return normal(random); });
    HostTensor bias(columns, d.skipped + cols, [&](std::int64_t) { return normal(random); });
    HostTensor y(f.out, rows * ld);
    NormRows launch{x.data(), nullptr, nullptr, y.data(), f.in, f.out, rows, cols, ld, ld};
    launch.rms = d.rms;
    launch.compensated = d.compensated;
    launch.columns = columns;
    const std::int64_t skipped = StorageBytes(columns, d.skipped);
    if (d.affine) launch.weight = static_cast<const char*>(weight.data()) + skipped;
    if (d.affine && !d.rms) launch.bias = static_cast<const char*>(bias.data()) + skipped;
    ASSERT_EQ(LaunchNorm(launch, nullptr), kOk);
    const double n = static_cast<double>(cols);
    const FormatInfo& o = Info(f.out);
    for (std::int64_t r = 0; r < rows; ++r) {
      double mean = 0, absolute = 0, square = 0;
      for (std::int64_t j = 0; j < cols; ++j) {
        mean += x[r * ld + j] / n;
        absolute += std::abs(x[r * ld + j]) / n;
      }
      if (d.rms) mean = 0;
      for (std::int64_t j = 0; j < cols; ++j) square += std::pow(x[r * ld + j] - mean, 2) / n;
      const double rstd = 1 / std::sqrt(square + static_cast<double>(launch.eps));
      const double h = std::ceil(n / (cols <= 4096 ? 128 : 256)) + 8;
      for (std::int64_t j = 0; j < cols; ++j) {
        const double hat = (x[r * ld + j] - mean) * rstd;
        double want = hat;
        double e = 0x1p-24 * ((h * absolute + std::abs(mean)) * rstd * (1 + std::abs(hat)) +
                              (h + 8) * std::abs(hat));
        if (d.affine) {
          want *= weight[d.skipped + j];
          e = std::abs(weight[d.skipped + j]) * e + 2 * 0x1p-24 * std::abs(want);
          if (!d.rms) want += bias[d.skipped + j];
          e += 2 * 0x1p-24 * std::abs(want);
        }
        const double bound =
            o.unit_roundoff * std::abs(want) + o.min_subnormal / 2 + (1 + o.unit_roundoff) * e;
        ASSERT_LE(std::abs(y[r * ld + j] - want), bound) << cols << " at " << r << "," << j;
      }
      for (std::int64_t j = cols; j < ld; ++j) ASSERT_TRUE(y.Untouched(r * ld + j));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, SimtNorm, kForms);

TEST_P(SimtNorm, AwkwardSizesHoldTheBound) {
  for (const std::int64_t cols :
       {1, 2, 31, 33, 63, 64, 65, 256, 257, 1000, 1025, 4096, 4104, 8192, 8200, 16384, 16392}) {
    Check(2, cols, cols % 5, {});
    Check(1, cols, 0, {.affine = true});
    Check(1, cols, 3, {.affine = true, .rms = true});
    Check(1, cols, 0, {.affine = true, .narrow = true});
  }
}

// They are read four at a time where they lie at multiples of 16 bytes.
TEST_P(SimtNorm, WeightsMayLieAnywhere) {
  for (const std::int64_t skipped : {1, 2, 3, 4}) {
    Check(2, 256, 0, {.affine = true, .skipped = skipped});
    Check(2, 256, 0, {.affine = true, .rms = true, .skipped = skipped});
    Check(2, 256, 0, {.affine = true, .skipped = 2 * skipped, .narrow = true});
  }
}

// A variance taken as a difference of two large means would be noise, or negative.
TEST_P(SimtNorm, ALargeMeanDoesNotDrownTheVariance) {
  for (const bool compensated : {false, true}) {
    Check(2, 1000, 0, {.mean = 1000, .spread = 1, .compensated = compensated});
    Check(2, 4096, 0, {.mean = 100, .spread = 1e-2, .compensated = compensated});
  }
}

// Kept in registers or read twice, and of a value that no sum of it is a multiple of.
TEST_P(SimtNorm, AConstantRowIsZero) {
  const Form& f = GetParam();
  for (const std::int64_t cols : {300, 304, 8300, 16000}) {
    HostTensor x(f.in, cols, [](std::int64_t) { return 0.3; });
    HostTensor y(f.out, cols);
    ASSERT_EQ(LaunchNorm({x.data(), nullptr, nullptr, y.data(), f.in, f.out, 1, cols, cols, cols},
                         nullptr),
              kOk);
    for (std::int64_t j = 0; j < cols; ++j) ASSERT_EQ(y[j], 0.0) << cols << " at " << j;
  }
}

TEST_P(SimtNorm, TheSameLaunchGivesTheSameBits) {
  const Form& f = GetParam();
  HostTensor x(f.in, 777, [](std::int64_t i) { return std::sin(static_cast<double>(i)); });
  HostTensor first(f.out, 777);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    simt::CurrentConfig().seed = seed;
    HostTensor y(f.out, 777);
    ASSERT_EQ(
        LaunchNorm({x.data(), nullptr, nullptr, y.data(), f.in, f.out, 1, 777, 777, 777}, nullptr),
        kOk);
    if (seed == 1) first = y;
    EXPECT_TRUE(y == first);
  }
}

}  // namespace
}  // namespace assay::kernels::gpu
