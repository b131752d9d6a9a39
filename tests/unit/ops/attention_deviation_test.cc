// The deviation of an attention's elements, where the roundings of its weights cancel and where
// they do not.
#include "kernels/ops/attention/attention_deviation.h"

#include <gtest/gtest.h>

#include <cmath>

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

// In fp32 no weight is rounded to another format.
TEST(AttentionDeviation, PlainWeightsHaveNoTermOfTheirOwn) {
  const AttentionDeviation model = Model(0);
  const double p2 = 1.0 / kKeys;
  EXPECT_LT(model.Of(1, kKeys, p2, p2, 1), 16 * model.u);
  EXPECT_FALSE(model.Alike(kKeys, p2));
}

}  // namespace
}  // namespace assay
