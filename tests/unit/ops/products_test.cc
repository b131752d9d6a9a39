// The products behind sampled elements: their sum is the reference's, for every layout and option
// of the operators that have them.
#include "kernels/ops/products.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "kernels/ops/op.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

// Holds factor·Σ left·right of sampled elements against the plain reference. An option that adds to
// the sum must be off.
void ExpectSumsAreTheReference(const Case& c) {
  SCOPED_TRACE(DefaultName(c));
  const Op& op = OpOf(c);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const ViewInputs inputs(tensors.views());
  const std::vector<std::int64_t> at = op.Samples(c, plan, /*seed=*/3, /*at_least=*/100);
  const std::optional<SampledProducts> products = op.Products(c, plan, inputs, at);
  ASSERT_TRUE(products.has_value());
  ASSERT_EQ(products->elements.size(), at.size());
  EXPECT_EQ(products->format, c.dtype);
  EXPECT_EQ(products->terms, plan.accumulations);
  EXPECT_EQ(products->left.name, plan.inputs[0].name);
  EXPECT_EQ(products->right.name, plan.inputs[1].name);
  EXPECT_LT(products->vectors(products->left), static_cast<std::int64_t>(at.size()));
  std::vector<double> value(at.size()), allowance(at.size());
  op.ReferenceAt(c, plan, inputs, at, value.data(), allowance.data());
  int told = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    const double* a = products->left_of(number);
    double sum = std::inner_product(a, a + products->terms, products->right_of(number), 0.0);
    sum *= products->elements[i].factor;
    if (!(value[i] > products->told_above)) continue;
    ++told;
    EXPECT_NEAR(sum, value[i], 1e-9 * (1 + std::abs(value[i]))) << at[i];
  }
  EXPECT_GT(told, 10);
}

TEST(Products, OfGemm) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      ExpectSumsAreTheReference(
          MakeCase(GemmProblem{.m = 37, .n = 41, .k = 29, .trans_a = trans_a, .trans_b = trans_b},
                   DType::kF32));
    }
  }
  ExpectSumsAreTheReference(
      MakeCase(GemmProblem{.m = 24, .n = 20, .k = 12, .batch = 5, .lda = 17}, DType::kF16));
  ExpectSumsAreTheReference(MakeCase(GemmProblem{.m = 24,
                                                 .n = 20,
                                                 .k = 12,
                                                 .alpha = 0.3,
                                                 .scale_a = 2.5,
                                                 .scale_b = 0.1,
                                                 .channel_scale = true,
                                                 .activation = "relu"},
                                     DType::kF32));
  for (const char* activation : {"gelu", "gelu_tanh"}) {
    ExpectSumsAreTheReference(MakeCase(
        GemmProblem{.m = 30, .n = 20, .k = 40, .alpha = 2, .activation = activation}, DType::kF32));
  }
}

TEST(Products, OfConv) {
  for (const char* layout : {"nchw", "nhwc"}) {
    ConvProblem p;
    p.batch = 2;
    p.channels = 6;
    p.filters = 8;
    p.input = {9, 7};
    p.kernel = {3, 3};
    p.stride = {2};
    p.padding = {1};
    p.groups = 2;
    p.layout = layout;
    ExpectSumsAreTheReference(MakeCase(p, DType::kF32));
  }
}

TEST(Products, AddendsAreLeftOut) {
  const Case plain = MakeCase(GemmProblem{.m = 8, .n = 8, .k = 8}, DType::kF32);
  const Case added =
      MakeCase(GemmProblem{.m = 8, .n = 8, .k = 8, .beta = 2, .bias = true}, DType::kF32);
  const auto products = [](const Case& c) {
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, RandomValues(plan));
    const std::vector<std::int64_t> at = {0, 9, 63};
    return OpOf(c).Products(c, plan, ViewInputs(tensors.views()), at);
  };
  ASSERT_TRUE(products(added).has_value());
  EXPECT_EQ(products(added)->left.values, products(plain)->left.values);
  EXPECT_EQ(products(added)->elements[1].factor, 1.0);
}

TEST(Products, ThereAreNoneBehindACurve) {
  const Case c = MakeCase(SoftmaxProblem{.rows = 4, .cols = 8}, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const std::vector<std::int64_t> at = {0};
  EXPECT_FALSE(OpOf(c).Products(c, plan, ViewInputs(tensors.views()), at).has_value());
}

// An element of one product of 4-bit floats has some thirty values: that their roundings do not
// cancel says nothing.
TEST(Products, ShortSumsOfFewBitsHaveNoModel) {
  const auto known = [](std::int64_t k, DType dtype) {
    const Case c = MakeCase(GemmProblem{.m = 52, .n = 55, .k = k}, dtype);
    return OpOf(c).Residuals(c, PlanOf(c)).known;
  };
  EXPECT_FALSE(known(1, DType::kE2M1));
  EXPECT_FALSE(known(7, DType::kE2M1));
  EXPECT_TRUE(known(8, DType::kE2M1));
  EXPECT_FALSE(known(3, DType::kE4M3FN));
  EXPECT_TRUE(known(4, DType::kE4M3FN));
  EXPECT_TRUE(known(1, DType::kF16));
  EXPECT_TRUE(known(1, DType::kF32));
}

}  // namespace
}  // namespace assay
