// The deviation of an attention's elements, where the roundings of its weights cancel and where
// they do not.
#include "kernels/ops/attention/attention_deviation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/dtype.h"

namespace assay {
namespace {

constexpr int kKeys = 54;

// A kernel in fp32 with P in a format of this roundoff.
AttentionDeviation Model(double p_roundoff) {
  AttentionDeviation model;
  model.u = 0x1p-24;
  model.p_roundoff = p_roundoff;
  model.steps = OutputStepsOf(DType::kF32);
  return model;
}

// Values of 1 and weights in bf16, in the proportions e^(spread·j): what an element lacks of 1, in
// standard deviations.
double Deviations(double spread) {
  double l = 0;
  for (int j = 0; j < kKeys; ++j) l += std::exp(spread * j);
  double error = -1, p2 = 0;
  for (int j = 0; j < kKeys; ++j) {
    const double w = std::exp(spread * j) / l;
    error += ToDouble(DType::kBF16, RoundToFormat(w, DType::kBF16));
    p2 += w * w;
  }
  return std::abs(error) / Model(0x1p-9).Of(1, kKeys, p2, p2, 1);
}

// 1/54 is .0019 away from the nearest bf16: without a term for it that would be 8 deviations.
TEST(AttentionDeviation, EqualWeightsAreRoundedTheSameWay) {
  for (const double spread : {0.0, 1e-6, 1e-5, 1e-4}) EXPECT_LT(Deviations(spread), 2) << spread;
}

TEST(AttentionDeviation, RoundingsOfOtherWeightsCancel) {
  for (const double spread : {1e-3, 0.01, 0.1}) EXPECT_LT(Deviations(spread), 2) << spread;
  const AttentionDeviation model = Model(0x1p-9);
  const double p2 = 1.0 / kKeys;
  const double alike = model.Of(1, kKeys, p2, p2, 1);
  EXPECT_GT(alike, model.p_roundoff);
  EXPECT_TRUE(model.Alike(kKeys, p2));
  EXPECT_FALSE(model.Alike(kKeys, 1.01 * p2));
  EXPECT_LT(model.Of(1, kKeys, 1.01 * p2, 1.01 * p2, 1), alike / 4);
}

// The direction needs weights that differ by 64 steps.
TEST(AttentionDeviation, NearlyEqualWeightsTellNoScale) {
  const AttentionDeviation model = Model(0x1p-9);
  const auto tells = [&](double steps) {
    const double spread = steps * model.p_roundoff;
    return model.Tells(kKeys, (1 + spread * spread) / kKeys);
  };
  EXPECT_FALSE(tells(8.1));
  EXPECT_FALSE(tells(63.9));
  EXPECT_TRUE(tells(64.1));
  EXPECT_TRUE(Model(0).Tells(kKeys, 1.001 / kKeys));
}

// And outputs that follow the scores over nine steps: 1000 times ulp²/12.
TEST(AttentionDeviation, OutputsWithinAFewStepsTellNoScale) {
  EXPECT_FALSE(AttentionDeviation::Steep(999, 1));
  EXPECT_TRUE(AttentionDeviation::Steep(1000, 1));
}

// In fp32 no weight is rounded to another format.
TEST(AttentionDeviation, PlainWeightsHaveNoTermOfTheirOwn) {
  const AttentionDeviation model = Model(0);
  constexpr int keys = 64;  // whose inverse is exact
  const double p2 = 1.0 / keys;
  EXPECT_LT(model.Of(1, keys, p2, p2, 1), 16 * model.u);
  EXPECT_FALSE(model.Alike(keys, p2));
}

// A kernel that divides by l before it rounds P to fp16, in deviations: the weights of 131,072 keys
// are mostly subnormal there, and 40,000 nearly equal ones are all rounded by a thousandth.
TEST(AttentionDeviation, SmallWeightsInFp16LoseMore) {
  AttentionDeviation model = Model(0x1p-11);
  const auto deviations = [&](int keys, double spread) {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    std::vector<double> p(static_cast<std::size_t>(keys));
    double l = 0;
    for (double& x : p) l += x = std::exp(spread * normal(random));
    double r = 0, o = 0, p2 = 0, qv = 0;
    for (const double x : p) {
      const double w = x / l, v = spread > 0 ? normal(random) : 1;
      r += w * v;
      o += Quantise(w, DType::kF16) * v;
      p2 += w * w;
      qv += w * w * v * v;
    }
    return std::abs(o - r) / model.Of(r, keys, qv, p2, 1);
  };
  EXPECT_GT(deviations(40'000, 0), 1.5);
  const double without = deviations(131'072, 1);
  model.step = Info(DType::kF16).min_subnormal / 2;
  EXPECT_LT(deviations(40'000, 0), 1);
  EXPECT_LT(deviations(131'072, 1), without / 4);
  EXPECT_NEAR(model.WeightRounding(1024, 1.0 / 1024), 0x1p-22, 0x1p-29);
}

// A sum in order of 4,096 weights is off by 270 u if they differ by a fifth of its last place.
TEST(AttentionDeviation, WeightsWithinTheLastPlaceOfTheirSumHaveNoDeviation) {
  const AttentionDeviation model = Model(0x1p-24);
  const auto silent = [&](double places) {
    const double spread = places * 4096 * model.u;
    return model.Silent(4096, (1 + spread * spread) / 4096, 1.0 / 4096, 0);
  };
  EXPECT_TRUE(silent(0.2));
  EXPECT_TRUE(silent(0.9));
  EXPECT_FALSE(silent(1.1));
  EXPECT_FALSE(Model(0x1p-8).Silent(4096, 1.0 / 4096, 1.0 / 4096, 0));
}

// ---- P in 8 bits

AttentionDeviation Narrow() {
  AttentionDeviation model = Model(Info(DType::kE4M3FN).unit_roundoff);
  model.flush = Info(DType::kE4M3FN).min_subnormal / 2;
  return model;
}

TEST(AttentionDeviation, NearlyEqualWeightsIn8BitsHaveNoDeviation) {
  const AttentionDeviation model = Narrow();
  EXPECT_TRUE(model.Silent(kKeys, 1.24 / kKeys, 1.0 / kKeys, 0));
  EXPECT_FALSE(model.Silent(kKeys, 1.26 / kKeys, 1.0 / kKeys, 0));
  EXPECT_FALSE(model.Tells(kKeys, 0.9));
  EXPECT_FALSE(Model(0x1p-8).Silent(kKeys, 1.0 / kKeys, 1.0 / kKeys, 0));
}

TEST(AttentionDeviation, RowsThatLoseWeightsIn8BitsHaveNoDeviation) {
  const AttentionDeviation model = Narrow();
  EXPECT_FALSE(model.Silent(kKeys, 0.1, 0.1, 0.99 * 0x1p-9));
  EXPECT_TRUE(model.Silent(kKeys, 0.1, 0.1, 1.01 * 0x1p-9));
  EXPECT_FALSE(Model(0x1p-8).Silent(kKeys, 0.1, 0.1, 0.5));
}

TEST(AttentionDeviation, RowsOfOneLargeWeightIn8BitsHaveNoDeviation) {
  const AttentionDeviation model = Narrow();
  EXPECT_FALSE(model.Silent(kKeys, 0.08, 0.0999, 0));
  EXPECT_TRUE(model.Silent(kKeys, 0.08, 0.1001, 0));
  EXPECT_FALSE(Model(0x1p-8).Silent(kKeys, 0.08, 0.1001, 0));
}

TEST(AttentionDeviation, WeightsBelowTheRangeOf8BitsLoseMore) {
  AttentionDeviation model = Narrow();
  const double many = 1e6, with = model.Of(0, many, 0.5, 0.5, 1);
  model.flush = 0;
  const double without = model.Of(0, many, 0.5, 0.5, 1);
  EXPECT_NEAR(with * with - without * without, 0x1p-20 / 3 * many * 0.5, 1e-6);
}

// R and the gain of rows whose weights are rounded to e4m3 by `round`.
struct OfNarrow {
  double rms = 0, gain = 0, limit = 0;
};

template <class Round>
OfNarrow RoundedBy(const Round& round) {
  constexpr int kRows = 1024, kColumns = 16, kMany = 256;
  const AttentionDeviation model = Narrow();
  const double u_p = model.p_roundoff;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  double squares = 0, error_reference = 0, reference = 0, counted = 0;
  for (int row = 0; row < kRows; ++row) {
    std::vector<double> p(kMany);
    for (double& x : p) x = 0.75 * normal(random);
    const double most = *std::max_element(p.begin(), p.end());
    double l = 0, p2 = 0, lost = 0;
    for (double& x : p) l += x = std::exp(x - most);
    for (const double x : p) lost += x < kLostBelow ? x : 0;
    for (const double x : p) p2 += x * x / l / l;
    for (int column = 0; column < kColumns; ++column) {
      double r = 0, o = 0, qv = 0;
      for (const double x : p) {
        const double v = normal(random);
        r += x / l * v;
        o += round(x) / l * v;
        qv += x * x / l / l * v * v;
      }
      if (model.Silent(kMany, p2, 1 / l, lost / l)) continue;
      const double sigma = model.Of(r, kMany, qv, p2, 1), variance = sigma * sigma;
      ++counted;
      squares += (o - r) * (o - r) / variance;
      error_reference += (o - r) * r / variance;
      reference += r * r / variance;
    }
  }
  return {std::sqrt(squares / counted), error_reference / reference,
          u_p * 3 / 16 + 1.25 * u_p / std::sqrt(counted / kColumns) + 8 / std::sqrt(reference)};
}

double Nearest(double x) { return ToDouble(DType::kE4M3FN, RoundToFormat(x, DType::kE4M3FN)); }
double Up(double x) {
  const double unit = std::exp2(std::max(-6, std::ilogb(x)) - 3);
  return std::ceil(x / unit) * unit;
}
// To the next value from `share` of a step on: 1/2 is to the nearest.
double UpFrom(double share, double x) {
  const double unit = std::exp2(std::max(-6, std::ilogb(x)) - 3);
  return std::floor(x / unit + 1 - share) * unit;
}

TEST(AttentionDeviation, RoundingToOneSideIn8BitsIsAGain) {
  const double u_p = Info(DType::kE4M3FN).unit_roundoff;
  const OfNarrow nearest = RoundedBy(Nearest), up = RoundedBy(Up);
  EXPECT_LT(nearest.rms, 1);
  EXPECT_LT(std::abs(nearest.gain), u_p / 32);
  EXPECT_GT(up.gain, up.limit);
  for (const double share : {0.25, 0.75}) {
    const OfNarrow side = RoundedBy([&](double x) { return UpFrom(share, x); });
    EXPECT_GT(std::abs(side.gain), side.limit) << share;
  }
}

}  // namespace
}  // namespace assay
