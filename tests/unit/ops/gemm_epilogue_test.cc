// The epilogue of a gemm: value and allowance against arithmetic by hand, activations
// against published figures, the fast reference against the plain one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops/changed_fields.h"
#include "kernels/ops/common/checking.h"
#include "kernels/ops/gemm/gemm_reference.h"
#include "kernels/ops/gemm/gemm_reference_cpu.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

constexpr double kU = 0x1p-24;

GemmProblem Everything(const std::string& activation) {
  GemmProblem p{.m = 21, .n = 35, .k = 18, .batch = 2};
  p.alpha = 0.5;
  p.beta = -1.5;
  p.scale_a = 0.25;
  p.scale_b = 3;
  p.channel_scale = p.bias = true;
  p.activation = activation;
  return p;
}

// One element from given operands: a, b, [c], [channel_scale], [bias].
PlainResult One(const GemmProblem& p, DType dtype, const std::vector<double>& operands,
                DType out = DType::kUnspecified) {
  Case c = MakeCase(p, dtype);
  c.out_dtype = out;
  const Plan plan = PlanOf(c);
  EXPECT_EQ(plan.inputs.size(), operands.size());
  const Tensors tensors(
      plan, [&](int operand, std::int64_t) { return operands[static_cast<std::size_t>(operand)]; });
  return PlainReference(GemmOp(), c, plan, tensors);
}

TEST(GemmEpilogue, EveryTermByHand) {
  GemmProblem p = Everything("none");
  p.m = p.n = p.k = p.batch = 1;
  // 0.5·0.25·3·10·(2·3) − 1.5·4 + 7
  const PlainResult got = One(p, DType::kF32, {2, 3, 4, 10, 7});
  EXPECT_DOUBLE_EQ(got.value[0], 22.5 - 6 + 7);
  // Product 8u·|f·S|, and c and bias beside it; factors alpha, scale_a, scale_b, channel_scale:
  // 4u·|f·S|; c, bias and the sum; once more for the second addition; four smallest subnormals'
  // halves.
  const double want = kU * (8 * (22.5 + 6 + 7) + 4 * 22.5 + 6 + 7 + 23.5 + (22.5 + 6 + 7));
  EXPECT_NEAR(got.allowance[0], want, 1e-9 * want);
}

// As the reference BLAS does: it adds alpha·a·b to beta·c one by one. These sums round c and the
// bias with each product, beside which the products may be small.
TEST(GemmEpilogue, AnAccumulatorMayBeginWithTheAddends) {
  for (const std::int64_t k : {1, 2, 8, 64, 1000}) {
    for (const double alpha : {1.0, 1e-2, 1e-6}) {
      GemmProblem p{.m = 16, .n = 24, .k = k, .alpha = alpha, .beta = 3, .bias = true};
      SCOPED_TRACE(p.Describe());
      const Case c = MakeCase(p, DType::kF32);
      const Plan plan = PlanOf(c);
      const Tensors tensors(plan, RandomValues(plan));
      const PlainResult plain = PlainReference(GemmOp(), c, plan, tensors);
      const GemmEpilogue epilogue = MakeGemmEpilogue(c, plan);
      const float* operands[4];
      for (std::size_t o = 0; o < 4; ++o) operands[o] = tensors.views()[o].as<float>();
      const auto& [a, b, c0, bias] = operands;
      double squared = 0;
      for (std::int64_t i = 0; i < p.m * p.n; ++i) {
        const std::int64_t column = i % p.n;
        float x = bias[column] + 3 * c0[i];
        double sum = 0, absolute = 0, squares = 0;
        for (std::int64_t q = 0; q < k; ++q) {
          const float scaled = static_cast<float>(alpha) * b[q * p.n + column];
          x += scaled * a[i / p.n * k + q];
          const double product =
              static_cast<double>(a[i / p.n * k + q]) * static_cast<double>(b[q * p.n + column]);
          sum += product;
          absolute += std::abs(product);
          squares += product * product;
        }
        const auto at = static_cast<std::size_t>(i);
        const double error = static_cast<double>(x) - plain.value[at];
        EXPECT_LE(std::abs(error), kU * std::abs(plain.value[at]) + plain.allowance[at]);
        const double z =
            error / epilogue.Deviation(sum, absolute, squares, static_cast<double>(c0[i]), 1,
                                       static_cast<double>(bias[column]));
        squared += z * z;
      }
      EXPECT_LT(std::sqrt(squared / static_cast<double>(p.m * p.n)), 1.2);
    }
  }
}

TEST(GemmEpilogue, OperandsComeInThePlansOrder) {
  Case c = MakeCase(Everything("relu"), DType::kE4M3FN);
  Plan plan = PlanOf(c);
  ASSERT_EQ(plan.inputs.size(), 5u);
  EXPECT_EQ(plan.inputs[2].name, "c");
  EXPECT_EQ(plan.inputs[2].dtype, DType::kF32);
  EXPECT_EQ(plan.inputs[3].name, "channel_scale");
  EXPECT_EQ(plan.inputs[4].name, "bias");
  EXPECT_EQ(plan.inputs[4].dims, std::vector<std::int64_t>{35});
  auto& p = std::get<GemmProblem>(c.problem);
  p.beta = 0;
  p.channel_scale = false;
  plan = PlanOf(c);
  ASSERT_EQ(plan.inputs.size(), 3u);
  EXPECT_EQ(plan.inputs[2].name, "bias");
  EXPECT_EQ(p.bias_operand(), 2);
  c.dtype = DType::kF64;
  EXPECT_EQ(PlanOf(c).inputs[2].dtype, DType::kF64);
}

TEST(GemmEpilogue, ActivationsAtKnownPoints) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Activate(Activation::kRelu, -3), 0.0);
  EXPECT_EQ(Activate(Activation::kRelu, 3), 3.0);
  EXPECT_EQ(Activate(Activation::kRelu, -inf), 0.0);
  EXPECT_TRUE(std::isnan(Activate(Activation::kRelu, std::nan(""))));
  // Φ(1) = 0.841344746…, Φ(−2) = 0.0227501319…, Φ(−6) = 9.86587645e-10.
  EXPECT_NEAR(Activate(Activation::kGelu, 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(Activate(Activation::kGelu, -2), -2 * 0.022750131948179195, 1e-16);
  EXPECT_NEAR(Activate(Activation::kGelu, -6), -6 * 9.865876450376946e-10, 1e-22);
  EXPECT_EQ(Activate(Activation::kGelu, inf), inf);
  // The two forms differ by 4.7e-4 at most, and by more than nothing.
  double worst = 0;
  for (double x = -8; x <= 8; x += 1.0 / 128) {
    const double tanh_form =
        0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(Activate(Activation::kGeluTanh, x), tanh_form, 2e-15);
    worst = std::max(worst, std::abs(Activate(Activation::kGelu, x) - tanh_form));
  }
  EXPECT_GT(worst, 3e-4);
  EXPECT_LT(worst, 5e-4);
  EXPECT_EQ(Activate(Activation::kGeluTanh, -100), 0.0);
  EXPECT_EQ(Activate(Activation::kGeluTanh, inf), inf);
}

// The steepest slope that the bound passes errors through.
TEST(GemmEpilogue, NoActivationIsSteeperThanItsBound) {
  double steepest = 0;
  for (Activation a : {Activation::kGelu, Activation::kGeluTanh}) {
    for (double x = -10; x <= 10; x += 1e-3) {
      steepest = std::max(steepest, std::abs(Activate(a, x + 1e-6) - Activate(a, x - 1e-6)) / 2e-6);
    }
  }
  EXPECT_LT(steepest, 1.13);
  EXPECT_GT(steepest, 1.128);
}

// fp32 as kernels compute it, cancellation and all, stays inside.
TEST(GemmEpilogue, FloatFormulasOfGeluAreInsideTheBound) {
  GemmProblem p{.m = 1, .n = 1, .k = 1};
  p.bias = true;
  for (const char* activation : {"gelu", "gelu_tanh"}) {
    p.activation = activation;
    for (float x = -12; x < 12; x += 0.0371f) {
      const PlainResult ref = One(p, DType::kF32, {0, 0, static_cast<double>(x)});
      float y = 0;
      if (p.activation == "gelu") {
        y = 0.5f * x * (1.0f + std::erf(x * 0.70710678f));
      } else {
        y = 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
      }
      const double t = kU * std::abs(ref.value[0]) + ref.allowance[0];
      EXPECT_LE(std::abs(static_cast<double>(y) - ref.value[0]), t) << activation << " " << x;
      // The one form for the other is not. They meet near 1.87.
      const double other =
          Activate(p.activation == "gelu" ? Activation::kGeluTanh : Activation::kGelu,
                   static_cast<double>(x));
      if (std::abs(std::abs(x) - 2.3f) < 0.3f) {
        EXPECT_GT(std::abs(other - ref.value[0]), 4 * t) << x;
      }
    }
  }
}

TEST(GemmEpilogue, IntegersAreExactUntilTheEpilogue) {
  GemmProblem p{.m = 1, .n = 1, .k = 3};
  p.channel_scale = true;
  const PlainResult got = One(p, DType::kI8, {100, 100, 0.75}, DType::kF32);
  EXPECT_DOUBLE_EQ(got.value[0], 22500.0);
  // No term of the sum: conversion and one factor, and the rounding of the result.
  EXPECT_NEAR(got.allowance[0], kU * (2 * 22500.0 + 22500.0), 1e-9);
  Case c = MakeCase(p, DType::kI8);
  c.out_dtype = DType::kBF16;
  const Plan plan = PlanOf(c);
  EXPECT_FALSE(plan.exact);
  EXPECT_DOUBLE_EQ(plan.proven_factor, 1.0);
}

TEST(GemmEpilogue, InfinitiesHaveNoAllowance) {
  GemmProblem p{.m = 1, .n = 1, .k = 1};
  p.activation = "relu";
  p.bias = true;
  const double inf = std::numeric_limits<double>::infinity();
  const PlainResult got = One(p, DType::kF32, {-inf, 1, 3});
  EXPECT_EQ(got.value[0], 0.0);  // relu(−inf)
  EXPECT_EQ(got.allowance[0], 0.0);
}

TEST(GemmEpilogue, FastIsPlain) {
  for (const char* activation : {"none", "relu", "gelu", "gelu_tanh"}) {
    for (DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kBF16, DType::kE5M2,
                    DType::kE2M1, DType::kI8}) {
      GemmProblem p = Everything(activation);
      p.ldc = 40;
      Case c = MakeCase(p, t);
      if (t == DType::kI8) c.out_dtype = DType::kF16;
      SCOPED_TRACE(DefaultName(c));
      const Plan plan = PlanOf(c);
      const Tensors tensors(plan, RandomValues(plan));
      const PlainResult plain = PlainReference(GemmOp(), c, plan, tensors);
      std::vector<double> value(plain.value.size(), -1), allowance(plain.value.size(), -1);
      GemmReferenceCpu(p, t, MakeGemmEpilogue(c, plan), tensors.views(), value.data(),
                       allowance.data());
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::int64_t index = static_cast<std::int64_t>(i);
        const double terms = plain.allowance[i] / (8 * plan.accumulator_roundoff);
        ExpectClose(value[i], plain.value[i], 1e-12 * terms, index);
        ExpectClose(allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i], index);
      }
    }
  }
}

// What the verdict allows is below three quarters of a product, where the activation does not hide
// it.
void ExpectSignsShowEachProduct(const Case& c, const KernelProbe& probe) {
  ASSERT_EQ(probe.name, "sparse-signs");
  SCOPED_TRACE(DefaultName(c));
  EXPECT_TRUE(OnlyShapesDiffer(GemmOp(), c, probe.data));
  const auto& p = std::get<GemmProblem>(c.problem);
  const absl::StatusOr<Plan> made = GemmOp().MakePlan(probe.data);
  ASSERT_TRUE(made.ok()) << made.status();
  const Plan& plan = *made;
  const Tensors tensors(plan, PatternValues(plan));
  const PlainResult plain = PlainReference(GemmOp(), probe.data, plan, tensors);
  const double product = std::abs(p.alpha * p.scale_a * p.scale_b);
  const OutputRounding rounding = OutputRoundingOf(plan.output.dtype);
  std::size_t shown = 0, sums = 0;
  for (std::size_t i = 0; i < plain.value.size(); ++i) {
    if (plain.value[i] < product / 2) continue;
    ++sums;
    const double allowed =
        TBound(rounding, plain.value[i], plan.proven_factor * plain.allowance[i]);
    shown += allowed < 0.75 * product ? 1 : 0;
  }
  if (plain.value.size() >= 100) {
    EXPECT_GT(sums, plain.value.size() / 8);
  }
  EXPECT_GE(static_cast<double>(shown), 0.9 * static_cast<double>(sums));
}

TEST(GemmProbe, OfSignsShowsAProductInEveryFormat) {
  for (const std::int64_t k : {1, 60, 4096, 50000}) {
    for (const auto& [in, out] : {std::pair{DType::kF32, DType::kF32},
                                  {DType::kF16, DType::kF16},
                                  {DType::kBF16, DType::kBF16},
                                  {DType::kE4M3FN, DType::kBF16},
                                  {DType::kE4M3FN, DType::kE4M3FN},
                                  {DType::kI8, DType::kF16}}) {
      Case c = MakeCase(GemmProblem{.m = 12, .n = 20, .k = k, .activation = "gelu"}, in);
      c.out_dtype = out;
      c.kernel_file = "kernel.so";
      const std::vector<KernelProbe> probes = GemmOp().Probes(c, PlanOf(c));
      ExpectSignsShowEachProduct(
          c, *std::find_if(probes.begin(), probes.end(),
                           [](const auto& probe) { return probe.name == "sparse-signs"; }));
    }
  }
}

TEST(GemmProbe, OfSignsHasNoSumsOfFewProducts) {
  const auto has = [](const Case& c, double declared) {
    Plan plan = PlanOf(c);
    plan.operand_roundoff = declared;
    const std::vector<KernelProbe> probes = GemmOp().Probes(c, plan);
    return std::any_of(probes.begin(), probes.end(),
                       [](const auto& probe) { return probe.name == "sparse-signs"; });
  };
  // A sum of 16 products is to be eight deviations below the largest number: 32 times the factor.
  for (const auto& [alpha, expected] : {std::pair{2000.3, true}, {2100.3, false}, {1e5, false}}) {
    Case c = MakeCase(GemmProblem{.m = 12, .n = 20, .k = 64, .alpha = alpha}, DType::kF16);
    c.kernel_file = "kernel.so";
    EXPECT_EQ(has(c, 0), expected) << alpha;
    std::get<GemmProblem>(c.problem).k = 1;  // 8 times the factor
    EXPECT_EQ(has(c, 0), alpha < 65504 / 8) << alpha;
    c.dtype = DType::kBF16;
    EXPECT_TRUE(has(c, 0)) << alpha;
  }
  // Sums that an output of four bits does not round are too short for a transform.
  for (const auto& [output, expected] : {std::pair{DType::kBF16, true}, {DType::kE4M3FN, false}}) {
    Case c = MakeCase(GemmProblem{.m = 12, .n = 20, .k = 64, .alpha = 0.3}, DType::kE4M3FN);
    c.kernel_file = "kernel.so";
    c.out_dtype = output;
    EXPECT_TRUE(has(c, 0)) << Name(output);
    EXPECT_EQ(has(c, 0x1p-16), expected) << Name(output);
  }
}

// The probes of a kernel that may be made for its factors or for GELU.
TEST(GemmProbe, OfOneProductKeepsEveryFieldAndReachesTheCurve) {
  const GemmProblem shapes[] = {{.m = 1, .n = 1, .k = 1},
                                {.m = 1, .n = 40, .k = 300, .trans_b = true},
                                {.m = 40, .n = 1, .k = 300, .trans_a = true},
                                {.m = 21, .n = 35, .k = 18, .batch = 2}};
  for (GemmProblem p : shapes) {
    p.alpha = 0.3;
    p.beta = -1.7;
    p.scale_a = 2.7;
    p.channel_scale = p.bias = true;
    for (const char* activation : {"gelu", "none"}) {
      p.activation = activation;
      for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN,
                            DType::kE2M1, DType::kI8}) {
        Case c = MakeCase(p, t);
        c.out_dtype = t == DType::kF64 ? t : DType::kF32;
        const bool exact = t != DType::kE2M1 && t != DType::kI8;
        const std::size_t nan = Info(t).storage_bits >= 16 ? 1 : 0;
        EXPECT_EQ(GemmOp().Probes(c, PlanOf(c)).size(), (exact ? 6u : 4u) + nan);
        // A user's kernel may be made for the fields that exact cases change.
        c.kernel_file = "kernel.so";
        const std::vector<KernelProbe> probes = GemmOp().Probes(c, PlanOf(c));
        const std::size_t further = 4 * nan;  // nan-b, nan-c and nan-bias, too
        ASSERT_EQ(probes.size(), 5u + further);
        ExpectSignsShowEachProduct(c, probes[2 + further]);
        for (int operand = 0; operand < 2; ++operand) {
          const KernelProbe& probe = probes[3 + further + static_cast<std::size_t>(operand)];
          EXPECT_EQ(probe.name, operand == 0 ? "significand-a" : "significand-b");
          SCOPED_TRACE(DefaultName(c) + " " + std::string(probe.name));
          EXPECT_TRUE(OnlyShapesDiffer(GemmOp(), c, probe.data));
          const Plan plan = PlanOf(probe.data);
          EXPECT_FALSE(plan.exact);
          EXPECT_EQ(plan.accumulations, 1);
          EXPECT_FALSE(GemmOp().Residuals(probe.data, plan).known);
          const std::size_t numbers = static_cast<std::size_t>(operand);
          if (Info(t).storage_bits >= 16 && (operand == 0 || t != DType::kF16)) {
            EXPECT_LT(LargestMagnitude(plan.inputs[numbers].pattern), 1e-3);
            EXPECT_GT(LargestMagnitude(plan.inputs[1 - numbers].pattern), 1e4);
          }
          const Tensors tensors(plan, PatternValues(plan));
          const PlainResult plain = PlainReference(GemmOp(), probe.data, plan, tensors);
          std::vector<double> value(plain.value.size(), -1), allowance(plain.value.size(), -1);
          ReferenceBuffers out{value.data(), allowance.data()};
          EXPECT_TRUE(GemmOp().ReferenceHere(probe.data, plan, tensors.views(), out).ok());
          double largest = 0;
          for (std::size_t i = 0; i < value.size(); ++i) {
            ExpectClose(value[i], plain.value[i], 1e-6 * plain.allowance[i],
                        static_cast<std::int64_t>(i));
            ExpectClose(allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i],
                        static_cast<std::int64_t>(i));
            largest = std::max(largest, std::abs(value[i]));
          }
          if (value.size() < 1000) continue;
          EXPECT_GT(largest, 6);
          if (operand == 0) {
            EXPECT_LT(largest, 1e4);
          } else if (Info(t).storage_bits >= 16) {
            EXPECT_GT(largest, 65504);
          }
        }
      }
    }
  }
}

// exp(2x) of a tanh overflows there, so that Inf/Inf shows. Data of a short sum do not go so far.
TEST(GemmProbe, OfOneProductGoesOnToWhereGeluIsLinear) {
  for (const DType t : {DType::kF16, DType::kE4M3FN, DType::kI8}) {
    Case c = MakeCase(GemmProblem{.m = 30, .n = 40, .k = 4, .activation = "gelu_tanh"}, t);
    c.out_dtype = DType::kF16;
    const KernelProbe probe = GemmOp().Probes(c, PlanOf(c)).back();
    ASSERT_EQ(probe.name, "significand-b");
    const Plan plan = PlanOf(probe.data);
    const Tensors tensors(plan, PatternValues(plan));
    double largest = 0;
    for (const double v : PlainReference(GemmOp(), probe.data, plan, tensors).value) {
      largest = std::max(largest, std::abs(v));
    }
    EXPECT_GT(largest, 30) << Name(t);
    EXPECT_LT(largest, 1000) << Name(t);
  }
}

// A user's kernel must keep the NaN of each operand.
TEST(GemmProbe, OfNanInOneOperandHasNoNumbers) {
  Case c = MakeCase(GemmProblem{.m = 9, .n = 7, .k = 5, .beta = 1, .bias = true}, DType::kF32);
  c.kernel_file = "kernel.so";
  std::vector<std::string> names;
  for (const KernelProbe& probe : GemmOp().Probes(c, PlanOf(c))) {
    if (!probe.name.starts_with("nan")) continue;
    names.emplace_back(probe.name);
    const auto plan = GemmOp().MakePlan(probe.data);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Tensors tensors(*plan, PatternValues(*plan));
    for (const double v : PlainReference(GemmOp(), probe.data, *plan, tensors).value) {
      EXPECT_TRUE(std::isnan(v)) << probe.name;
    }
  }
  EXPECT_THAT(names, ::testing::ElementsAre("nan-b", "nan-c", "nan-bias", "nan"));
}

// A beta that fp16 clips or takes for 0 shows.
TEST(GemmProbe, OfOneProductAddsNumbersNearOne) {
  for (const double beta : {1.0, -1.7, 1e-6, 1e5, 1e-20}) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      const Case c =
          MakeCase(GemmProblem{.m = 30, .n = 40, .k = 20, .alpha = 0.3, .beta = beta}, t);
      const KernelProbe probe = GemmOp().Probes(c, PlanOf(c)).back();
      ASSERT_EQ(probe.name, "significand-b");
      const Plan plan = PlanOf(probe.data);
      const double addend = std::abs(beta) * plan.inputs[2].pattern.a;
      SCOPED_TRACE(testing::Message() << Name(t) << ' ' << beta << ' ' << addend);
      EXPECT_FALSE(MayBeInfinite(plan.inputs[2].pattern, plan.inputs[2].dtype));
      if (t != DType::kF16 || std::abs(std::log2(std::abs(beta))) < 8) {
        EXPECT_LT(std::abs(std::log2(addend)), 0.51);
      } else if (beta != 1e-20) {
        EXPECT_TRUE(addend > 1e-3 && addend < 1e2);
      }
    }
  }
}

// Addends are beyond what fp16 holds, and all partial sums are exact in fp32.
TEST(GemmProbe, OfWholeNumbersHasLargeAddends) {
  for (const double factor : {0.25, 1.0, 3.0}) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kE4M3FN, DType::kI8}) {
      for (const std::int64_t k : {1, 40, 30'000}) {
        GemmProblem p{.m = 12, .n = 14, .k = k, .alpha = factor, .beta = -factor};
        p.channel_scale = p.bias = true;
        p.scale_a = p.scale_b = factor;
        Case c = MakeCase(p, t);
        c.out_dtype = t == DType::kF64 ? t : DType::kF32;
        SCOPED_TRACE(DefaultName(c));
        for (const KernelProbe& probe : GemmOp().Probes(c, PlanOf(c))) {
          if (probe.name != "exact-sparse" && probe.name != "exact-integers") continue;
          const bool large = probe.name == "exact-integers" && t != DType::kE4M3FN;
          const Plan plan = PlanOf(probe.data);
          for (const int operand : {2, 4}) {
            const double most = LargestMagnitude(plan.inputs[operand].pattern);
            EXPECT_EQ(most, large ? 0x1p17 : 8) << plan.inputs[operand].name;
          }
          if (!large) continue;
          const auto& changed = std::get<GemmProblem>(probe.data.problem);
          const double scale = changed.alpha * changed.scale_a * changed.scale_b;
          const Tensors tensors(plan, PatternValues(plan));
          const double addends = (std::abs(changed.beta) + 1) * 0x1p17;
          for (const double v : PlainReference(GemmOp(), probe.data, plan, tensors).value) {
            EXPECT_EQ(static_cast<double>(static_cast<float>(v)), v);
            EXPECT_LT(std::abs(v) + 2 * addends, 0x1p24 * std::min(scale, 0.5));
          }
        }
      }
    }
  }
}

// Sums of bytes have no room for them where they come near the end of int32.
TEST(GemmProbe, OfBytesHasAddendsThatFit) {
  for (const std::int64_t k : {std::int64_t{40}, kMaxInt8Terms}) {
    Case c = MakeCase(GemmProblem{.m = 2, .n = 3, .k = k, .beta = 1}, DType::kI8);
    c.out_dtype = DType::kI32;
    const KernelProbe probe = GemmOp().Probes(c, PlanOf(c)).front();
    ASSERT_EQ(probe.name, "exact-integers");
    const double most = LargestMagnitude(PlanOf(probe.data).inputs[2].pattern);
    EXPECT_EQ(most, k == 40 ? 0x1p17 : 8);
    EXPECT_LE(static_cast<double>(k) * 0x1p14 + most, 0x1p31 - 1);
  }
}

// A kernel that passes its output through fp16, or clips it there, is seen.
TEST(GemmProbe, OfExactSignificandsGoesBeyondHalf) {
  for (const DType t :
       {DType::kF32, DType::kTF32, DType::kF16, DType::kBF16, DType::kE4M3FN, DType::kE5M2FNUZ}) {
    for (const DType out : {DType::kF32, DType::kF16}) {
      Case c = MakeCase(GemmProblem{.m = 30, .n = 40, .k = 20}, t);
      c.out_dtype = out;
      if (!Check(c).empty()) continue;
      const std::vector<KernelProbe> probes = GemmOp().Probes(c, PlanOf(c));
      const KernelProbe& probe = probes.back();
      ASSERT_EQ(probe.name, "exact-significand-b");
      const Plan plan = PlanOf(probe.data);
      EXPECT_TRUE(plan.exact);
      const PlainResult plain =
          PlainReference(GemmOp(), probe.data, plan, Tensors(plan, PatternValues(plan)));
      double largest = 0;
      for (const double v : plain.value) {
        EXPECT_TRUE(std::isfinite(Quantise(v, out)));
        largest = std::max(largest, std::abs(v));
      }
      EXPECT_EQ(largest > 65504, out == DType::kF32) << Name(t) << " " << Name(out);
    }
  }
}

}  // namespace
}  // namespace assay
