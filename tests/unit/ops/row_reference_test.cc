// softmax, layer_norm and copy: the plain references against arithmetic by hand
// and identities, the fast ones against them.
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/ops/layer_norm/layer_norm_reference.h"
#include "kernels/ops/layer_norm/layer_norm_reference_cpu.h"
#include "kernels/ops/softmax/softmax_reference.h"
#include "kernels/ops/softmax/softmax_reference_cpu.h"
#include "kernels/runtime/device.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kU = 0x1p-24;

PlainResult Fast(const Case& c, const Plan& plan, const Tensors& tensors) {
  const std::size_t count = static_cast<std::size_t>(plan.output.extents.count());
  PlainResult fast{std::vector<double>(count, -1), std::vector<double>(count, -1)};
  if (const auto* softmax = std::get_if<SoftmaxProblem>(&c.problem)) {
    SoftmaxReferenceCpu(*softmax, MakeSoftmaxTerms(*softmax, c.dtype, plan),
                        MakeSoftmaxDeviation(*softmax, c.dtype, plan), c.dtype, tensors.views(),
                        {fast.value.data(), fast.allowance.data()});
  } else {
    const auto& norm = std::get<LayerNormProblem>(c.problem);
    LayerNormReferenceCpu(norm, MakeLayerNormTerms(norm, c.dtype, plan),
                          MakeLayerNormDeviation(norm, c.dtype, plan), c.dtype, tensors.views(),
                          {fast.value.data(), fast.allowance.data()});
  }
  return fast;
}

PlainResult ExpectFastIsPlain(const Case& c,
                              const std::function<double(int, std::int64_t)>& values = {}) {
  SCOPED_TRACE(DefaultName(c));
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, values ? values : RandomValues(plan));
  const PlainResult plain = PlainReference(*FindOp(OpName(c.problem)), c, plan, tensors);
  const PlainResult fast = Fast(c, plan, tensors);
  for (std::size_t i = 0; i < fast.value.size(); ++i) {
    const std::int64_t index = static_cast<std::int64_t>(i);
    ExpectClose(fast.value[i], plain.value[i],
                1e-12 * std::abs(plain.value[i]) +
                    1e-8 * plain.allowance[i] * (c.dtype == DType::kF64 ? 1e6 : 1),
                index);
    ExpectClose(fast.allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i], index);
  }
  return fast;
}

TEST(SoftmaxReference, ByHand) {
  const Case c = MakeCase(SoftmaxProblem{.rows = 1, .cols = 2}, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, [](int, std::int64_t i) { return i == 0 ? 3.0 : 1.0; });
  const PlainResult plain = PlainReference(SoftmaxOp(), c, plan, tensors);
  const double y0 = 1 / (1 + std::exp(-2.0)), y1 = 1 - y0;
  EXPECT_NEAR(plain.value[0], y0, 1e-15);
  EXPECT_NEAR(plain.value[1], y1, 1e-15);
  EXPECT_NEAR(plain.allowance[0], y0 * kU * (0 + 2 * 6 + 8 + 2), 1e-12 * kU);
  EXPECT_NEAR(plain.allowance[1], y1 * kU * (4 + 2 * 4 + 8 + 2), 1e-12 * kU);
}

TEST(SoftmaxReference, FastIsPlain) {
  for (DType t : kFloatFormats) {
    for (std::int64_t cols : {1, 7, 8, 33, 1000}) {
      ExpectFastIsPlain(MakeCase(SoftmaxProblem{.rows = 5, .cols = cols}, t));
    }
  }
}

TEST(SoftmaxReference, RowsSumToOneAndLargeScoresHold) {
  const Case c = MakeCase(SoftmaxProblem{.rows = 3, .cols = 129}, DType::kF32);
  const PlainResult fast = ExpectFastIsPlain(c, [](int, std::int64_t i) {
    return (i % 3 == 0 ? 1000.0 : i % 3 == 1 ? -1000.0 : 80.0) + static_cast<double>(i % 5);
  });
  for (std::size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 129; ++i) sum += fast.value[row * 129 + i];
    EXPECT_NEAR(sum, 1.0, 1e-13);
  }
}

// A mask of fp64's lowest number: |x − m| + |x| overflows, and the weight is 0.
TEST(SoftmaxReference, AMaskOfTheLowestNumberHasNoAllowance) {
  const Case c = MakeCase(SoftmaxProblem{.rows = 3, .cols = 9}, DType::kF64);
  const PlainResult r = ExpectFastIsPlain(c, [](int, std::int64_t i) {
    if (i % 2 == 1) return std::numeric_limits<double>::lowest();
    return i / 9 == 2 ? 0x1p1023 : static_cast<double>(i % 9);
  });
  for (std::size_t i = 0; i < 27; ++i) {
    if (i % 2 == 1) {
      EXPECT_EQ(r.value[i], 0) << i;
      EXPECT_LT(r.allowance[i], 1e-300) << i;
    } else if (i < 18) {
      EXPECT_GT(r.value[i], 0) << i;
      EXPECT_LT(r.allowance[i], 1e-14) << i;
    } else {
      EXPECT_EQ(r.allowance[i], kInf) << i << ": the judge says that any number is within it";
    }
  }
}

// A kernel that stores its exponentials in fp16, reads them back and divides. Most of these lie
// below fp16's normal numbers. With the declaration every element is within its bound, and without
// it some is not.
TEST(SoftmaxReference, ExponentialsHeldInAFormatLoseItsSteps) {
  constexpr DType kHalf = DType::kF16;
  const Case c = MakeCase(SoftmaxProblem{.rows = 4, .cols = 500}, kHalf);
  Plan plan = PlanOf(c);
  const Tensors tensors(plan, [](int, std::int64_t i) {
    return Quantise(
        -static_cast<double>(i % 500 * 7 % 500) * 0.036 * static_cast<double>(1 + i / 500 % 4),
        kHalf);
  });
  const double once = PlainReference(SoftmaxOp(), c, plan, tensors).allowance[0];
  plan.intermediate_roundoff = Info(kHalf).unit_roundoff;
  const PlainResult plain = PlainReference(SoftmaxOp(), c, plan, tensors);
  const OutputRounding rounding = OutputRoundingOf(kHalf);
  std::size_t outside = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    const double l = 1 / plain.value[row * 500];  // the first element is the largest
    const double steps = Info(kHalf).min_subnormal / 2 / l;
    if (row == 0) {
      EXPECT_NEAR(plain.allowance[0] - once, 0x1p-11 / l + steps, 1e-6 / l);
    }
    for (std::size_t i = row * 500; i < (row + 1) * 500; ++i) {
      const double r = plain.value[i];
      const double got = Quantise(Quantise(r * l, kHalf) / l, kHalf);
      EXPECT_LE(std::abs(got - r), TBound(rounding, r, plain.allowance[i])) << i;
      const double relative = plain.allowance[i] - r * 0x1p-11 - steps;
      outside += std::abs(got - r) > TBound(rounding, r, relative) ? 1 : 0;
    }
  }
  EXPECT_GT(outside, 10u);
}

// Small numbers of bf16 that a kernel holds in fp16, whose steps near 0 are larger.
TEST(RowReference, ADeclaredFormatHasItsOwnSteps) {
  const double half_step = Info(DType::kF16).min_subnormal / 2;
  for (const Problem& problem :
       {Problem(SoftmaxProblem{.rows = 2, .cols = 50}),
        Problem(LayerNormProblem{.rows = 2, .cols = 50}),
        Problem(LayerNormProblem{.rows = 2, .cols = 50, .affine = true, .rms = true})}) {
    const Case c = MakeCase(problem, DType::kBF16);
    SCOPED_TRACE(DefaultName(c));
    const Op& op = *FindOp(OpName(problem));
    Plan plan = PlanOf(c);
    plan.intermediate_roundoff = Info(DType::kF16).unit_roundoff;
    const Tensors tensors(plan, RandomValues(plan));
    const PlainResult before = PlainReference(op, c, plan, tensors);
    plan.intermediate_step = 2 * half_step;
    const PlainResult plain = PlainReference(op, c, plan, tensors);
    const PlainResult fast = Fast(c, plan, tensors);
    for (std::size_t i = 0; i < plain.allowance.size(); ++i) {
      const double more = plain.allowance[i] - before.allowance[i];
      const bool softmax = std::holds_alternative<SoftmaxProblem>(problem);
      EXPECT_GT(more, softmax ? half_step : half_step / 51) << i;
      EXPECT_LT(more, 8 * half_step) << i;
      EXPECT_NEAR(fast.allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i]) << i;
    }
  }
}

// A kernel that stores its results, or both them and its exponentials, in fp16, for an output of
// bf16.
TEST(SoftmaxReference, ResultsHeldInAFormatLoseItsSteps) {
  constexpr DType kHalf = DType::kF16;
  const Case c = MakeCase(SoftmaxProblem{.rows = 4, .cols = 500}, DType::kBF16);
  Plan plan = PlanOf(c);
  plan.intermediate_roundoff = Info(kHalf).unit_roundoff;
  plan.intermediate_step = Info(kHalf).min_subnormal;
  const Tensors tensors(plan, [](int, std::int64_t i) {
    return Quantise(
        -static_cast<double>(i % 500 * 7 % 500) * 0.012 * static_cast<double>(1 + i / 500 % 4),
        DType::kBF16);
  });
  const PlainResult plain = PlainReference(SoftmaxOp(), c, plan, tensors);
  const OutputRounding rounding = OutputRoundingOf(DType::kBF16);
  const double half_step = Info(kHalf).min_subnormal / 2;
  std::size_t outside = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    const double l = 1 / plain.value[row * 500];  // the first element is the largest
    for (std::size_t i = row * 500; i < (row + 1) * 500; ++i) {
      const double r = plain.value[i];
      const double result = Quantise(Quantise(r, kHalf), DType::kBF16);
      const double both = Quantise(Quantise(Quantise(r * l, kHalf) / l, kHalf), DType::kBF16);
      EXPECT_LE(std::abs(result - r), TBound(rounding, r, plain.allowance[i])) << i;
      if (r * l < Info(kHalf).min_normal) {  // else both roundings are relative
        EXPECT_LE(std::abs(both - r), TBound(rounding, r, plain.allowance[i])) << i;
      }
      const double before = plain.allowance[i] - half_step;  // without those of the result
      outside += std::abs(result - r) > TBound(rounding, r, before) ? 1 : 0;
    }
  }
  EXPECT_GT(outside, 10u);
}

TEST(SoftmaxReference, NonFiniteRowsFollowIeee) {
  const Case c = MakeCase(SoftmaxProblem{.rows = 5, .cols = 11}, DType::kF32);
  const PlainResult fast = ExpectFastIsPlain(c, [](int, std::int64_t i) {
    const std::int64_t row = i / 11, col = i % 11;
    if (row == 0) return kInf;
    if (row == 1) return -kInf;
    if (row == 2 && col == 4) return std::nan("");
    if (row == 3 && col == 10) return kInf;
    if (row == 4 && col != 2) return -kInf;
    return 1.0;
  });
  for (std::size_t i = 0; i < 44; ++i) {
    EXPECT_TRUE(std::isnan(fast.value[i])) << i;
    EXPECT_EQ(fast.allowance[i], 0.0) << i;
  }
  for (std::size_t col = 0; col < 11; ++col) EXPECT_EQ(fast.value[44 + col], col == 2 ? 1.0 : 0.0);
}

// A norm without weights in fp32, by two passes, that may take subnormal numbers for 0.
std::vector<float> NormInFloats(const std::vector<double>& x, float eps, bool rms, bool flushes) {
  const auto kept = [flushes](float v) {
    return flushes && std::abs(v) < std::numeric_limits<float>::min() ? 0.0F : v;
  };
  const auto n = static_cast<float>(x.size());
  float sum = 0, squares = 0;
  for (double v : x) sum = kept(sum + static_cast<float>(v));
  const float mean = rms ? 0.0F : kept(sum / n);
  std::vector<float> y;
  for (double v : x) y.push_back(rms ? static_cast<float>(v) : kept(static_cast<float>(v) - mean));
  for (float d : y) squares = kept(squares + kept(d * d));
  const float rstd = 1 / std::sqrt(kept(kept(squares / n) + kept(eps)));
  for (float& d : y) d *= rstd;
  return y;
}

// Whatever a kernel makes of squares that underflow is within the bound, or there is no bound.
// Those of larger numbers cost nothing, to the last bit.
TEST(LayerNormReference, SquaresThatUnderflowHaveAWiderBound) {
  constexpr std::int64_t kCols = 48;
  for (const bool rms : {false, true}) {
    for (const double eps : {0.0, 1e-40, 1.5e-38, 1e-36, 1e-5}) {
      const Case c =
          MakeCase(LayerNormProblem{.rows = 1, .cols = kCols, .eps = eps, .rms = rms}, DType::kF32);
      double unbounded = 0, bounded = 0;
      for (double scale = 0x1p-30; scale > 0x1p-124; scale /= 2) {
        const auto value = [&](int, std::int64_t i) {
          return scale * Quantise(std::sin(static_cast<double>(i)), DType::kF32);
        };
        const PlainResult r = ExpectFastIsPlain(c, value);
        std::vector<double> x;
        for (std::int64_t i = 0; i < kCols; ++i) x.push_back(value(0, i));
        for (const bool flushes : {false, true}) {
          const auto y = NormInFloats(x, static_cast<float>(eps), rms, flushes);
          for (std::size_t i = 0; i < y.size(); ++i) {
            if (r.allowance[i] == kInf) continue;
            EXPECT_LE(std::abs(static_cast<double>(y[i]) - r.value[i]),
                      TBound(OutputRoundingOf(DType::kF32), r.value[i], r.allowance[i]))
                << eps << " " << scale << " " << flushes;
          }
        }
        (r.allowance[1] == kInf ? unbounded : bounded) += 1;
        // What is bounded is so within 7 %: a row that is wrong as a whole does not pass.
        if (rms && r.allowance[1] != kInf) {
          EXPECT_LT(r.allowance[1], 0.07 * std::abs(r.value[1])) << eps << " " << scale;
        }
        if (rms && (scale > 0x1p-32 || eps == 1e-5)) {
          const double h = PlanOf(c).sum_depth;
          EXPECT_EQ(r.allowance[1], kU * ((h + 8) * std::abs(r.value[1]))) << eps << " " << scale;
        }
      }
      EXPECT_EQ(unbounded > 0, OpOf(c).SquaresMayVanish(c)) << eps;
      EXPECT_EQ(unbounded > 0, eps < 9 * (kCols + 8) * 0x1p-126) << eps;
      EXPECT_GT(bounded, 25) << eps;
    }
  }
}

// Zeros lose nothing, whose result is NaN without an eps, and neither do NaNs and infinities.
TEST(LayerNormReference, RowsThatDoNotUnderflowKeepTheirBound) {
  for (const double value : {0.0, kInf, std::numeric_limits<double>::quiet_NaN()}) {
    for (const bool affine : {false, true}) {
      const Case c =
          MakeCase(LayerNormProblem{.rows = 1, .cols = 9, .eps = 0, .affine = affine, .rms = true},
                   DType::kF32);
      const PlainResult r = ExpectFastIsPlain(
          c, [&](int operand, std::int64_t i) { return operand > 0 || i == 0 ? 2.0 : value; });
      const bool finite = value == 0;
      EXPECT_EQ(std::isfinite(r.value[0]), finite || value == kInf);
      for (double e : r.allowance) EXPECT_TRUE(std::isfinite(e)) << value;
      const PlainResult all = ExpectFastIsPlain(
          c, [&](int operand, std::int64_t) { return operand > 0 ? 2.0 : value; });
      EXPECT_TRUE(std::isnan(all.value[0]));
      EXPECT_EQ(all.allowance[0], 0);
    }
  }
  // An eps that a kernel may take for 0.
  const Case c = MakeCase(LayerNormProblem{.rows = 1, .cols = 9, .eps = 1e-40}, DType::kF32);
  EXPECT_EQ(ExpectFastIsPlain(c, [](int, std::int64_t) { return 0.0; }).allowance[0], kInf);
}

TEST(LayerNormReference, ByHand) {
  const Case c =
      MakeCase(LayerNormProblem{.rows = 1, .cols = 2, .eps = 0.0, .affine = true}, DType::kF32);
  const Plan plan = PlanOf(c);
  ASSERT_EQ(plan.inputs.size(), 3u);
  // x = 1, 5: μ = 3, var = 4, ŷ = -1, 1.
  const double data[3][2] = {{1, 5}, {2, 3}, {10, -1}};
  const Tensors tensors(plan, [&](int operand, std::int64_t i) { return data[operand][i]; });
  const PlainResult plain = PlainReference(LayerNormOp(), c, plan, tensors);
  EXPECT_EQ(plain.value, (std::vector<double>{-2 + 10, 3 - 1}));
  const double e = kU * ((2 * 3 + 3) * 0.5 * 2 + 10);
  EXPECT_NEAR(plain.allowance[0], 2 * e + 2 * kU * (2 + 8), 1e-12 * kU);
  EXPECT_NEAR(plain.allowance[1], 3 * e + 2 * kU * (3 + 2), 1e-12 * kU);
}

TEST(LayerNormReference, RmsByHand) {
  const Case c =
      MakeCase(LayerNormProblem{.rows = 1, .cols = 2, .eps = 0.0, .rms = true}, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, [](int, std::int64_t i) { return i == 0 ? 1.0 : 7.0; });
  const PlainResult plain = PlainReference(LayerNormOp(), c, plan, tensors);
  EXPECT_DOUBLE_EQ(plain.value[0], 0.2);
  EXPECT_DOUBLE_EQ(plain.value[1], 1.4);
  EXPECT_NEAR(plain.allowance[1], kU * 10 * 1.4, 1e-12 * kU);
}

TEST(LayerNormReference, FastIsPlain) {
  for (DType t : kFloatFormats) {
    for (std::int64_t cols : {1, 7, 8, 33, 1000}) {
      for (bool affine : {false, true}) {
        for (bool rms : {false, true}) {
          LayerNormProblem p{.rows = 5, .cols = cols, .affine = affine, .rms = rms};
          ExpectFastIsPlain(MakeCase(p, t));
          if (!affine) continue;
          p.weight_format = "input";
          const Case c = MakeCase(p, t);
          EXPECT_EQ(PlanOf(c).inputs[1].dtype, t);
          ExpectFastIsPlain(c);
        }
      }
    }
  }
}

TEST(LayerNormReference, NearlyConstantRowsKeepTheirVariance) {
  const Case c = MakeCase(LayerNormProblem{.rows = 2, .cols = 257}, DType::kF32);
  const PlainResult fast = ExpectFastIsPlain(c, [](int, std::int64_t i) {
    return 1e4 + static_cast<double>(i % 2) / 64;  // the mean square less μ² is noise in FP32
  });
  for (double v : fast.value) EXPECT_NEAR(std::abs(v), 0.93, 0.1);
}

// Whatever the constant: the rounding of a plain sum would be all that is left of it.
TEST(LayerNormReference, ConstantRowsAreZeroHoweverLarge) {
  for (const double constant : {-1e30, -1e20, 3.0, 1e25}) {
    const Case c = MakeCase(LayerNormProblem{.rows = 2, .cols = 777}, DType::kF64);
    const PlainResult fast = ExpectFastIsPlain(c, [&](int, std::int64_t) { return constant; });
    for (const double v : fast.value) EXPECT_EQ(v, 0.0) << constant;
  }
}

// The mean of subnormals is rounded to a subnormal, however small the share of u in it.
TEST(LayerNormReference, TheMeanOfSubnormalsLosesAStep) {
  constexpr int kCols = 100;
  constexpr float kEps = 1e-12f;
  const Case c = MakeCase(LayerNormProblem{.rows = 1, .cols = kCols, .eps = kEps}, DType::kF32);
  std::vector<float> x(kCols);
  for (int i = 0; i < kCols; ++i) x[i] = static_cast<float>(std::sin(i) * 1e-42);
  const PlainResult r = ExpectFastIsPlain(c, [&](int, std::int64_t i) { return x[i]; });
  float sum = 0;
  for (const float v : x) sum += v;
  const float mean = sum / kCols;
  int lost = 0;
  for (int i = 0; i < kCols; ++i) {
    const double y = (x[i] - mean) / std::sqrt(kEps);
    EXPECT_NEAR(y, r.value[i], r.allowance[i]) << i;
    lost += std::abs(y - r.value[i]) > 1e-4 * std::abs(r.value[i]) ? 1 : 0;
  }
  EXPECT_GT(lost, kCols / 2) << "more than normal numbers would lose";
  const PlainResult zeros = ExpectFastIsPlain(c, [](int, std::int64_t) { return 0.0; });
  for (const double allowance : zeros.allowance) EXPECT_EQ(allowance, 0);
}

TEST(LayerNormReference, NonFiniteRowsAreNan) {
  const Case c = MakeCase(LayerNormProblem{.rows = 2, .cols = 9, .affine = true}, DType::kF32);
  const PlainResult fast = ExpectFastIsPlain(c, [](int operand, std::int64_t i) {
    return operand == 0 && i == 12 ? kInf : 1.0 + 0.1 * static_cast<double>(i);
  });
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_TRUE(std::isfinite(fast.value[i]));
    EXPECT_TRUE(std::isnan(fast.value[9 + i]));
    EXPECT_EQ(fast.allowance[9 + i], 0.0);
  }
}

// Narrow inputs repeat, and narrow outputs have errors that follow the argument.
TEST(RowReference, OnlySoftmaxesInFp32HaveADirection) {
  const SoftmaxProblem problem{.rows = 5, .cols = 100};
  const auto has = [&](DType input, DType output) {
    Case c = MakeCase(problem, input);
    c.out_dtype = output;
    return SoftmaxOp().Residuals(c, PlanOf(c)).direction;
  };
  EXPECT_TRUE(has(DType::kF32, DType::kF32));
  EXPECT_FALSE(has(DType::kF16, DType::kF16));
  EXPECT_FALSE(has(DType::kF16, DType::kF32));
  EXPECT_FALSE(has(DType::kF64, DType::kF64));
}

// The places of deviations are filled for whole tensors, by the formulas of one row.
// y near 0 times an infinity: rounded to 0, to either side of it, a right kernel gives NaN or an
// infinity of either sign.
TEST(LayerNormReference, AnInfiniteWeightLeavesItsColumnUndecided) {
  const Case c = MakeCase(LayerNormProblem{.rows = 2, .cols = 9, .affine = true}, DType::kF32);
  std::vector<OperandStats> stats(3);
  stats[0].inf_count = 2;
  stats[1].nan_count = 1;
  stats[2].inf_count = 1;
  EXPECT_EQ(LayerNormOp().Undecided(c, stats), "") << "a row of NaN, and sums, are decided";
  stats[1].inf_count = 1;
  EXPECT_NE(LayerNormOp().Undecided(c, stats), "");
  EXPECT_EQ(LayerNormOp().Undecided(c, {stats.data(), 1}), "") << "without a weight";
}

TEST(RowReference, FillsDeviationsWhereItIsAsked) {
  for (const Problem& problem :
       {Problem(SoftmaxProblem{.rows = 5, .cols = 100}),
        Problem(LayerNormProblem{.rows = 5, .cols = 100}),
        Problem(LayerNormProblem{.rows = 5, .cols = 100, .affine = true, .rms = true}),
        Problem(LayerNormProblem{.rows = 5, .cols = 100, .affine = true})}) {
    const Case c = MakeCase(problem, DType::kF32);
    SCOPED_TRACE(DefaultName(c));
    const Op& op = OpOf(c);
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, RandomValues(plan));
    const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
    std::vector<double> value(500), allowance(500);
    std::vector<float> deviation(500, -1), offset(5, -1), gain(5, -1), direction(500, 0);
    const ResidualModel model = op.Residuals(c, plan);
    EXPECT_TRUE(model.known && model.gates);
    ReferenceBuffers out{value.data(), allowance.data()};
    out.deviation = deviation.data();
    if (model.rows) {
      out.row_offset = offset.data();
      out.row_gain = gain.data();
    }
    if (model.direction) out.direction = direction.data();
    ASSERT_TRUE(op.Reference(c, plan, *device, tensors.views(), out).ok());
    for (std::size_t i = 0; i < 500; ++i) {
      // Below the bound, which holds the worst case.
      EXPECT_GT(deviation[i], 0) << i;
      EXPECT_LT(static_cast<double>(deviation[i]), allowance[i] + kU * std::abs(value[i])) << i;
    }
    const auto* norm = std::get_if<LayerNormProblem>(&problem);
    const bool has_offset = norm != nullptr && !norm->rms;
    EXPECT_EQ(model.rows, norm == nullptr || norm->rms || !norm->affine);
    EXPECT_EQ(model.direction, norm == nullptr || !model.rows);
    for (const float d : direction) EXPECT_EQ(d != 0, model.direction);
    for (std::size_t row = 0; row < 5; ++row) {
      EXPECT_EQ(gain[row] > 0, model.rows);
      EXPECT_EQ(offset[row] > 0, model.rows && has_offset);
    }
  }
}

TEST(RowReference, KnowsWhereDeviationsMayDecide) {
  const auto of = [](DType input, const char* pattern, DType output = DType::kUnspecified) {
    Case c = MakeCase(SoftmaxProblem{.rows = 5, .cols = 100}, input);
    c.pattern = pattern;
    c.out_dtype = output;
    return SoftmaxOp().Residuals(c, PlanOf(c));
  };
  for (const char* drawn : {"", "normal:3:5", "uniform:-10:10", "uniform", "all-positive"}) {
    EXPECT_TRUE(of(DType::kF32, drawn).gates) << drawn;
    EXPECT_TRUE(of(DType::kBF16, drawn).gates) << drawn;
  }
  for (const char* other :
       {"constant", "integers", "sequential", "normal:0", "normal:1e-3:5", "all-positive:0"}) {
    EXPECT_FALSE(of(DType::kF32, other).known) << other;
  }
  EXPECT_FALSE(of(DType::kE4M3FN, "").gates);
  EXPECT_FALSE(of(DType::kF64, "").known);
  EXPECT_EQ(of(DType::kF32, "").largest_rest, 2.5);
}

TEST(CopyReference, IsTheInputInEveryFormat) {
  for (const FormatInfo& f : kFormats) {
    if (f.dtype == DType::kUnspecified) continue;
    const Case c = MakeCase(CopyProblem{.count = 100}, f.dtype);
    const Plan plan = PlanOf(c);
    EXPECT_TRUE(plan.exact);
    EXPECT_EQ(plan.output.dtype, f.dtype);
    const Tensors tensors(plan, [](int, std::int64_t i) { return static_cast<double>(i % 4); });
    const PlainResult plain = PlainReference(CopyOp(), c, plan, tensors);
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(plain.value[i], static_cast<double>(i % 4));
  }
}

}  // namespace
}  // namespace assay
