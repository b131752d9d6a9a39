// conv: the plain reference against arithmetic by hand, the fast one against it.
#include <limits>

#include "gtest/gtest.h"
#include "kernels/ops/conv/conv_reference_cpu.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

void ExpectFastIsPlain(const Case& c, const std::function<double(int, std::int64_t)>& values = {}) {
  SCOPED_TRACE(DefaultName(c));
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, values ? values : RandomValues(plan));
  const PlainResult plain = PlainReference(ConvOp(), c, plan, tensors);
  std::vector<double> value(plain.value.size(), -1), allowance(plain.value.size(), -1);
  ConvReferenceCpu(std::get<ConvProblem>(c.problem), c.dtype, plan.flushes_subnormals,
                   tensors.views(), value.data(), plan.exact ? nullptr : allowance.data());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const double scale = plan.exact ? 0.0 : plain.allowance[i] / (8 * plan.accumulator_roundoff);
    ExpectClose(value[i], plain.value[i], 1e-12 * scale, static_cast<std::int64_t>(i));
    if (!plan.exact) {
      ExpectClose(allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i],
                  static_cast<std::int64_t>(i));
    }
  }
}

ConvProblem Problem2d() {
  ConvProblem p;
  p.batch = 2;
  p.channels = 6;
  p.filters = 10;
  p.input = {9, 7};
  p.kernel = {3, 2};
  return p;
}

TEST(ConvReference, OneDimensionByHand) {
  ConvProblem p;
  p.channels = 1;
  p.filters = 1;
  p.input = {4};
  p.kernel = {3};
  p.padding = {1};
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  const double x[] = {1, 2, 3, 4}, w[] = {1, 10, 100};
  const Tensors tensors(plan, [&](int operand, std::int64_t i) { return (operand ? w : x)[i]; });
  const PlainResult plain = PlainReference(ConvOp(), c, plan, tensors);
  EXPECT_EQ(plain.value, (std::vector<double>{210, 321, 432, 43}));
  EXPECT_EQ(plan.flops, 2.0 * 4 * 3);
  EXPECT_EQ(plan.accumulations, 3);
}

TEST(ConvReference, StrideAndDilationByHand) {
  ConvProblem p;
  p.channels = 1;
  p.filters = 1;
  p.input = {7};
  p.kernel = {2};
  p.stride = {2};
  p.dilation = {3};
  const Case c = MakeCase(p, DType::kI8);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, [&](int operand, std::int64_t i) {
    return operand ? (i == 0 ? 1.0 : 10.0) : static_cast<double>(i + 1);
  });
  const PlainResult plain = PlainReference(ConvOp(), c, plan, tensors);
  EXPECT_EQ(plain.value, (std::vector<double>{1 + 40, 3 + 60}));
  EXPECT_TRUE(plan.exact);
}

TEST(ConvReference, LayoutsAgreeWhereTheDataDo) {
  ConvProblem p = Problem2d();
  p.padding = {1};
  const Plan nchw = PlanOf(MakeCase(p, DType::kF64));
  // The same numbers by coordinates, whatever the layout.
  const auto x = [](std::int64_t n, std::int64_t ch, std::int64_t pixel) {
    return static_cast<double>((n * 31 + ch * 7 + pixel * 3) % 11) - 5;
  };
  const auto w = [](std::int64_t f, std::int64_t ch, std::int64_t tap) {
    return static_cast<double>((f * 5 + ch * 3 + tap) % 7) - 3;
  };
  const Tensors first(nchw, [&](int operand, std::int64_t i) {
    return operand == 0 ? x(i / (6 * 63), i / 63 % 6, i % 63) : w(i / 36, i / 6 % 6, i % 6);
  });
  const PlainResult a = PlainReference(ConvOp(), MakeCase(p, DType::kF64), nchw, first);
  p.layout = "nhwc";
  const Plan nhwc = PlanOf(MakeCase(p, DType::kF64));
  const Tensors second(nhwc, [&](int operand, std::int64_t i) {
    return operand == 0 ? x(i / (6 * 63), i % 6, i / 6 % 63) : w(i / 36, i % 6, i / 6 % 6);
  });
  const PlainResult b = PlainReference(ConvOp(), MakeCase(p, DType::kF64), nhwc, second);
  const std::int64_t positions = 9 * 8;
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t f = 0; f < 10; ++f) {
      for (std::int64_t at = 0; at < positions; ++at) {
        EXPECT_EQ(a.value[static_cast<std::size_t>((n * 10 + f) * positions + at)],
                  b.value[static_cast<std::size_t>((n * positions + at) * 10 + f)]);
      }
    }
  }
}

TEST(ConvReference, FastIsPlain) {
  for (DType t : kFloatFormats) ExpectFastIsPlain(MakeCase(Problem2d(), t));
  ExpectFastIsPlain(MakeCase(Problem2d(), DType::kI8));
  for (const char* layout : {"nchw", "nhwc"}) {
    ConvProblem p = Problem2d();
    p.layout = layout;
    p.padding = {2, 1};
    p.stride = {2, 1};
    p.dilation = {1, 2};
    ExpectFastIsPlain(MakeCase(p, DType::kF32));
    p.groups = 2;
    ExpectFastIsPlain(MakeCase(p, DType::kF32));
    p.channels = p.filters = p.groups = 5;  // depthwise
    ExpectFastIsPlain(MakeCase(p, DType::kBF16));
    p = ConvProblem{};
    p.layout = layout;
    p.channels = 70;
    p.filters = 20;
    p.input = {4, 5, 6};
    p.kernel = {2, 3, 3};
    p.padding = {1};
    ExpectFastIsPlain(MakeCase(p, DType::kF16));  // 1260 terms: several blocks of k
    p.input = {300};
    p.kernel = {5};
    p.padding = {2};
    ExpectFastIsPlain(MakeCase(p, DType::kF32));  // several tiles of columns
  }
}

TEST(ConvReference, InfiniteWeightsMakeNoNanOutOfPadding) {
  ConvProblem p = Problem2d();
  p.padding = {1};
  const double inf = std::numeric_limits<double>::infinity();
  const Case c = MakeCase(p, DType::kF32);
  const auto infinite = [=](int, std::int64_t) { return inf; };
  const Plan plan = PlanOf(c);
  const PlainResult plain = PlainReference(ConvOp(), c, plan, Tensors(plan, infinite));
  for (double v : plain.value) EXPECT_EQ(v, inf);
  ExpectFastIsPlain(c, infinite);
}

TEST(ConvReference, FastIsPlainWithWeightsThatAreNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* layout : {"nchw", "nhwc"}) {
    // Some windows lie in a padding of 3 alone.
    for (const std::int64_t padding : {0, 1, 3}) {
      ConvProblem p = Problem2d();
      p.layout = layout;
      p.padding = {padding};
      p.groups = 2;
      const Case c = MakeCase(p, DType::kF32);
      ExpectFastIsPlain(c, [=](int operand, std::int64_t) { return operand == 0 ? 2 : nan; });
      ExpectFastIsPlain(c, [=](int operand, std::int64_t i) {
        return operand == 0 || i % 7 != 3 ? 1.0 : i % 2 == 0 ? inf : nan;
      });
    }
  }
}

TEST(ConvDeclared, OnlyADeclaredTransformHasMoreRoom) {
  const auto factor = [](std::int64_t channels, double operands) {
    ConvProblem p = Problem2d();
    p.channels = channels;
    Case c;
    c.problem = p;
    c.dtype = DType::kF32;
    Plan plan = PlanOf(c);
    plan.operand_roundoff = operands;
    Accumulator accumulator = AccumulatorOf(DType::kF32);
    accumulator.operands = operands;
    ConvOp().HoldTo(c, accumulator, plan);
    const double rms = ConvOp().Residuals(c, plan).largest_rms;
    EXPECT_EQ(rms > 2, operands > 0) << rms;
    return ProbableFactor(p.channels * 6, plan.accumulator) -
           ProbableFactor(p.channels * 6, AccumulatorOf(DType::kF32));
  };
  EXPECT_EQ(factor(1, 0), 0);
  EXPECT_NEAR(factor(1, 0x1p-22), 0x1p-21, 1e-12) << "a split errs by itself";
  EXPECT_NEAR(factor(1, 0x1p-16), 7 * 0x1p-15, 1e-12) << "6 products";
  EXPECT_NEAR(factor(600, 0x1p-16), 1.01 * 0x1p-15, 1e-12);
}

}  // namespace
}  // namespace assay
