// gemm: the plain reference against arithmetic by hand, the fast one against it.
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/common/dot.h"
#include "kernels/ops/gemm/gemm_reference.h"
#include "kernels/ops/gemm/gemm_reference_cpu.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

void ExpectFastIsPlain(const Case& c, const std::function<double(int, std::int64_t)>& values = {}) {
  SCOPED_TRACE(DefaultName(c));
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, values ? values : RandomValues(plan));
  const PlainResult plain = PlainReference(GemmOp(), c, plan, tensors);
  std::vector<double> value(plain.value.size(), -1), allowance(plain.value.size(), -1);
  GemmReferenceCpu(std::get<GemmProblem>(c.problem), c.dtype, MakeGemmEpilogue(c, plan),
                   tensors.views(), value.data(), plan.exact ? nullptr : allowance.data());
  for (std::size_t i = 0; i < value.size(); ++i) {
    // About √k·|A||B|; orders of FP64 sums differ by far less than 1e-12 of it.
    const double scale = plan.exact ? 0.0 : plain.allowance[i] / (8 * plan.accumulator_roundoff);
    ExpectClose(value[i], plain.value[i], 1e-12 * scale, static_cast<std::int64_t>(i));
    if (!plan.exact) {
      ExpectClose(allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i],
                  static_cast<std::int64_t>(i));
    }
  }
}

// Tensors, and how much of them is read.
class CountedInputs final : public HostInputs {
 public:
  explicit CountedInputs(std::span<const TensorView> views) : inputs_(views) {}
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    ++reads;
    elements += count;
    inputs_.Read(operand, begin, count, out);
  }
  mutable std::int64_t reads = 0, elements = 0;

 private:
  ViewInputs inputs_;
};

// Columns of B: short lines are read whole; in long ones some lie beside one another, and far
// apart.
TEST(GemmReference, ColumnsAreReadTogetherWhereTheyLieTogether) {
  constexpr std::int64_t kDepth = 100;
  const auto at = [](std::int64_t n, const std::vector<std::int64_t>& columns) {
    const Case c = MakeCase(GemmProblem{.m = 1, .n = n, .k = kDepth, .batch = 2}, DType::kF32);
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, RandomValues(plan));
    const PlainResult plain = PlainReference(GemmOp(), c, plan, tensors);
    const CountedInputs inputs(tensors.views());
    std::vector<std::int64_t> indices;
    for (const std::int64_t column : columns) indices.push_back(n + column);  // of batch 1
    std::vector<double> value(indices.size()), allowance(indices.size());
    GemmOp().ReferenceAt(c, plan, inputs, indices, value.data(), allowance.data());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      EXPECT_EQ(value[i], plain.value[static_cast<std::size_t>(indices[i])]) << n << " " << i;
    }
    return std::pair(inputs.reads - 1, inputs.elements - kDepth);  // less the row of A
  };
  EXPECT_EQ(at(16, {0, 1, 4, 7, 8, 11, 14}), std::pair(std::int64_t{1}, 16 * kDepth));
  EXPECT_EQ(at(16, {5, 7, 6}), std::pair(std::int64_t{2}, 2 * 16 * kDepth)) << "out of order";
  EXPECT_EQ(at(400, {5, 7, 200, 399}), std::pair(3 * kDepth, 5 * kDepth));
}

// A long sum has the same bits in whatever stretches it is added up.
TEST(GemmReference, DotsDoNotDependOnTheStretches) {
  constexpr std::int64_t kTerms = 2051;
  std::vector<double> a, b;
  for (std::int64_t i = 0; i < kTerms; ++i) {
    a.push_back(std::sin(static_cast<double>(i)));
    b.push_back(std::exp(std::cos(static_cast<double>(i * i))));
  }
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{3}, std::int64_t{8}, kTerms}) {
    const DotSums whole = Dot(a.data(), b.data(), n);
    for (const std::int64_t stretch : {4, 1024}) {
      DotParts parts;
      for (std::int64_t from = 0; from < n; from += stretch) {
        parts.Add(a.data() + from, b.data() + from, std::min(stretch, n - from));
      }
      EXPECT_EQ(parts.sums().sum, whole.sum) << n << " " << stretch;
      EXPECT_EQ(parts.sums().absolute, whole.absolute) << n << " " << stretch;
    }
  }
}

// Two numbers that the reference keeps of a long product are those of one dot product.
TEST(GemmReference, LongSumsAreThoseOfOneDotProduct) {
  constexpr std::int64_t kTerms = 2051;
  const Case c = MakeCase(GemmProblem{.m = 3, .n = 2, .k = kTerms}, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const PlainResult plain = PlainReference(GemmOp(), c, plan, tensors);
  const ViewInputs inputs(tensors.views());
  std::vector<double> a(3 * kTerms), b(2 * kTerms), column(kTerms);
  inputs.Read(0, 0, 3 * kTerms, a.data());
  inputs.Read(1, 0, 2 * kTerms, b.data());
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t t = 0; t < kTerms; ++t) column[t] = b[t * 2 + i % 2];
    EXPECT_EQ(plain.value[i], Dot(a.data() + i / 2 * kTerms, column.data(), kTerms).sum) << i;
  }
}

TEST(GemmReference, TwoByTwoByHand) {
  const Case c = MakeCase(GemmProblem{.m = 2, .n = 2, .k = 2}, DType::kF32);
  const Plan plan = PlanOf(c);
  const double a[] = {1, -2, 3, 4}, b[] = {5, 6, 7, -8};
  const Tensors tensors(plan, [&](int operand, std::int64_t i) { return (operand ? b : a)[i]; });
  const PlainResult plain = PlainReference(GemmOp(), c, plan, tensors);
  EXPECT_EQ(plain.value, (std::vector<double>{5 - 14, 6 + 16, 15 + 28, 18 - 32}));
  const double u = 0x1p-24;
  const double absolute[] = {5 + 14, 6 + 16, 15 + 28, 18 + 32};
  for (std::size_t i = 0; i < 4; ++i) {
    // k = 2: γ_10 is below 8·√2·u.
    const double gamma = 10 * u / (1 - 10 * u);
    EXPECT_NEAR(plain.allowance[i], gamma * absolute[i], 1e-12 * gamma * absolute[i]);
  }
  EXPECT_DOUBLE_EQ(plan.proven_factor, 1.0);
}

TEST(GemmReference, AlphaAndBetaAddTheirOwnRoundings) {
  const Case c =
      MakeCase(GemmProblem{.m = 1, .n = 1, .k = 1, .alpha = 0.5, .beta = -2}, DType::kF32);
  const Plan plan = PlanOf(c);
  ASSERT_EQ(plan.inputs.size(), 3u);
  const double data[] = {3, 4, 5};
  const Tensors tensors(plan, [&](int operand, std::int64_t) { return data[operand]; });
  const PlainResult plain = PlainReference(GemmOp(), c, plan, tensors);
  EXPECT_EQ(plain.value[0], 0.5 * 12 - 10);
  const double u = 0x1p-24;
  // k = 1: min(8·√1·u, γ_9) = 8u.
  EXPECT_NEAR(plain.allowance[0], 8 * u * (0.5 * 12 + 10) + u * (6 + 10 + 4), 1e-12 * u);
}

TEST(GemmReference, Fp64CountsItsAllowanceTwice) {
  const Plan plan32 = PlanOf(MakeCase(GemmProblem{.m = 1, .n = 1, .k = 100}, DType::kF32));
  const Case c = MakeCase(GemmProblem{.m = 1, .n = 1, .k = 100}, DType::kF64);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, [](int, std::int64_t) { return 1.0; });
  const PlainResult plain = PlainReference(GemmOp(), c, plan, tensors);
  EXPECT_DOUBLE_EQ(plain.allowance[0], 2 * 80 * 0x1p-53 * 100);
  EXPECT_NEAR(plan32.proven_factor, 108.0 / 80.0, 1e-5);
}

TEST(GemmReference, FastIsPlainInEveryFormat) {
  for (const FormatInfo& f : kFormats) {
    if (f.dtype == DType::kUnspecified || f.dtype == DType::kI32) continue;
    ExpectFastIsPlain(MakeCase(GemmProblem{.m = 37, .n = 51, .k = 29}, f.dtype));
  }
}

// Rows that begin in the middle of a byte, in every direction.
TEST(GemmReference, FastIsPlainWithTwoElementsToAByte) {
  for (bool trans_a : {false, true}) {
    for (bool trans_b : {false, true}) {
      GemmProblem p{.m = 23, .n = 31, .k = 27, .batch = 3, .trans_a = trans_a, .trans_b = trans_b};
      ExpectFastIsPlain(MakeCase(p, DType::kE2M1));
      p.lda = p.ldb = 37;
      p.stride_a = 37 * 28 + 5;
      ExpectFastIsPlain(MakeCase(p, DType::kE2M1));
    }
  }
}

TEST(GemmReference, FastIsPlainOnAwkwardShapes) {
  const std::int64_t shapes[][3] = {{1, 1, 1},     {1, 100, 7},    {100, 1, 7},  {13, 17, 193},
                                    {12, 16, 384}, {97, 257, 200}, {385, 40, 5}, {3, 300, 400}};
  for (const auto& s : shapes) {
    for (bool trans_a : {false, true}) {
      for (bool trans_b : {false, true}) {
        ExpectFastIsPlain(MakeCase(
            GemmProblem{.m = s[0], .n = s[1], .k = s[2], .trans_a = trans_a, .trans_b = trans_b},
            DType::kBF16));
      }
    }
  }
}

// Single products are read where they are; if a batch has others, all of it and what follows is
// summed.
TEST(GemmReference, SumsOfOneProductAreIt) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kE4M3FN}) {
    for (const int significand : {0, 1}) {
      for (const int trans : {0, 1, 2, 3}) {
        const bool trans_a = trans % 2 != 0, trans_b = trans / 2 != 0;
        Case c = MakeCase(
            GemmProblem{
                .m = 70, .n = 50, .k = 40, .batch = 2, .trans_a = trans_a, .trans_b = trans_b},
            dtype);
        c.exact = true;
        c.significand = significand;
        ExpectFastIsPlain(c, PatternValues(PlanOf(c)));
      }
    }
  }
  constexpr std::int64_t kSide = 20;
  Case c = MakeCase(GemmProblem{.m = kSide, .n = kSide, .k = kSide, .batch = 3}, DType::kF32);
  c.exact = true;
  c.pattern = "exact-ints:1:2";
  for (const int dense : {0, 1, 2}) {
    ExpectFastIsPlain(c, [&](int operand, std::int64_t i) {
      if (operand == 1 || i / (kSide * kSide) == dense) return static_cast<double>(i * 7 % 9) - 4;
      return i / kSide % kSide == i % kSide ? 3.0 : 0.0;
    });
  }
}

TEST(GemmReference, FastReadsNoPadding) {
  GemmProblem p{.m = 23, .n = 19, .k = 31, .batch = 3};
  p.beta = 1.5;
  p.alpha = 0.3;
  p.lda = 40;
  p.ldb = 24;
  p.ldc = 33;
  p.stride_a = 40 * 25;
  p.stride_c = 33 * 23 + 5;
  ExpectFastIsPlain(MakeCase(p, DType::kF32));
  p.trans_a = p.trans_b = true;
  p.ldb = 37;
  p.stride_a = 0;
  ExpectFastIsPlain(MakeCase(p, DType::kF16));
}

TEST(GemmReference, NonFiniteInputsFollowIeeeAndHaveNoAllowance) {
  const Case c = MakeCase(GemmProblem{.m = 20, .n = 20, .k = 20}, DType::kF32);
  const double inf = std::numeric_limits<double>::infinity();
  const auto values = [&](int operand, std::int64_t i) {
    if (operand == 0 && i == 20 * 3 + 5) return inf;
    if (operand == 0 && i == 20 * 7 + 5) return std::nan("");
    if (operand == 1 && i == 20 * 5 + 9) return 0.0;  // inf·0 = NaN at (3, 9)
    return static_cast<double>(i % 7) - 3.5;
  };
  ExpectFastIsPlain(c, values);
  const Plan plan = PlanOf(c);
  const PlainResult plain = PlainReference(GemmOp(), c, plan, Tensors(plan, values));
  EXPECT_TRUE(std::isinf(plain.value[20 * 3]));
  EXPECT_TRUE(std::isnan(plain.value[20 * 3 + 9]));
  EXPECT_TRUE(std::isnan(plain.value[20 * 7]));
  EXPECT_EQ(plain.allowance[20 * 3], 0.0);
  EXPECT_EQ(plain.allowance[20 * 7], 0.0);
}

// A format holds few values of data that are small beside its steps. 4 bits have few of any data.
TEST(GemmResiduals, DataOfFewValuesDecideNothing) {
  const auto gates = [](DType input, const char* pattern) {
    Case c = MakeCase(GemmProblem{.m = 64, .n = 64, .k = 64}, input);
    c.out_dtype = DType::kF32;
    c.pattern = pattern;
    return FindOp("gemm")->Residuals(c, PlanOf(c)).gates;
  };
  EXPECT_FALSE(gates(DType::kE4M3FN, "normal:0.03"));
  EXPECT_TRUE(gates(DType::kE4M3FN, "normal:0.04"));
  EXPECT_TRUE(gates(DType::kE2M1, ""));
  EXPECT_TRUE(gates(DType::kF16, "normal:0.001"));
}

}  // namespace
}  // namespace assay
