// The depth of a row's sum: no right FP32 kernel of softmax, layer norm or RMS norm is beyond the
// probabilistic bound on any pattern, in any order, and wrong ones that the proven bound hides are.
#include "kernels/ops/common/row_depth.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"
#include "tests/unit/ops/row_kernels.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

constexpr double kU = 0x1p-24;

TEST(RowDepth, IsTheRootOfTheLengthUnlessAddendsRepeat) {
  constexpr double kMany = 1e30;
  EXPECT_EQ(RowDepth(1, kMany), 1);
  EXPECT_EQ(RowDepth(64, kMany), 64);
  EXPECT_DOUBLE_EQ(RowDepth(65536, kMany), 8 * 256);
  EXPECT_EQ(RowDepth(65536, 1), 65536);
  // Half of the variance is the repeated addends'.
  EXPECT_NEAR(RowDepth(65536, 0.15 * 65536), 8 * 256 * std::sqrt(2.0), 1e-9);
}

double Distinct(const char* pattern, DType dtype, Addends addends, std::int64_t n = 4096) {
  return DistinctAddends(*ParsePattern(pattern, nullptr), dtype, addends, n, kU);
}

TEST(RowDepth, CountsTheValuesOfPatternsAndFormats) {
  for (const char* repeated : {"constant:3", "zeros", "sequential", "sparse", "checkerboard",
                               "one-hot", "row-vary", "extremes", "all-inf", "normal:0"}) {
    EXPECT_EQ(Distinct(repeated, DType::kF32, Addends::kExponentials), 1) << repeated;
    EXPECT_EQ(Distinct(repeated, DType::kF32, Addends::kElements), 1) << repeated;
  }
  EXPECT_GT(Distinct("normal", DType::kF32, Addends::kElements), 1e6);
  EXPECT_EQ(Distinct("normal", DType::kBF16, Addends::kElements), 3.5 * 128);
  EXPECT_LT(Distinct("normal", DType::kE4M3FN, Addends::kElements), 32);
  EXPECT_EQ(Distinct("integers:-3:3", DType::kF32, Addends::kExponentials), 6);
  // Exponentials of a narrow input lie close to 1, whatever its mean; so do elements at a mean.
  EXPECT_EQ(Distinct("normal:1e-5", DType::kF32, Addends::kExponentials), 1);
  EXPECT_GT(Distinct("normal:1e-5", DType::kF32, Addends::kElements), 1e6);
  EXPECT_EQ(Distinct("near-constant:5616:0.01", DType::kF32, Addends::kElements), 1);
  EXPECT_GT(Distinct("near-constant:5616:0.01", DType::kF32, Addends::kSquares), 10);
  EXPECT_GT(Distinct("near-constant:5616:1", DType::kF32, Addends::kExponentials), 1e3);
}

// The common relative error of products of drawn operands, summed up in FP32 in order.
double GainOfSequentialSums(DType dtype, double low, double high, int k) {
  constexpr int kElements = 48;
  std::mt19937_64 engine(static_cast<std::uint64_t>(k));
  std::uniform_real_distribution<double> uniform(low, high);
  double error_reference = 0, reference_squared = 0;
  for (int element = 0; element < kElements; ++element) {
    double r = 0;
    float sum = 0;
    for (int i = 0; i < k; ++i) {
      const double p = Quantise(uniform(engine), dtype) * Quantise(uniform(engine), dtype);
      r += p;
      sum += static_cast<float>(p);
    }
    error_reference += (sum - r) * r;
    reference_squared += r * r;
  }
  return error_reference / reference_squared;
}

// Where sums in order share more than a right kernel may, the statistics say nothing. Six times the
// deviation that roundings have is what bf16 numbers from 3/4 to 1 reach.
TEST(ProductResiduals, SayNothingOfSumsWhoseRoundingsRepeat) {
  const auto gates = [](DType dtype, const char* pattern, int k) {
    Case c = MakeCase(GemmProblem{.m = 8, .n = 6, .k = k}, dtype);
    c.out_dtype = DType::kF32;
    c.pattern = pattern;
    return GemmOp().Residuals(c, PlanOf(c)).gates;
  };
  for (const int k : {20000, 60304}) {
    const double limit = 0.3 * kU * std::sqrt(k);
    EXPECT_LT(std::abs(GainOfSequentialSums(DType::kBF16, 0, 1, k)), limit) << k;
    EXPECT_LT(std::abs(GainOfSequentialSums(DType::kBF16, 0.5, 1, k)), limit) << k;
    EXPECT_LT(std::abs(GainOfSequentialSums(DType::kF16, 0.75, 1, k)), limit) << k;
    EXPECT_TRUE(gates(DType::kBF16, "uniform:0:1", k)) << k;
    EXPECT_TRUE(gates(DType::kBF16, "uniform:0.5:1", k)) << k;
    EXPECT_TRUE(gates(DType::kF16, "uniform:0.75:1", k)) << k;
    EXPECT_TRUE(gates(DType::kBF16, "normal", k)) << k;
    EXPECT_TRUE(gates(DType::kE4M3FN, "uniform:0:1", k)) << k;
    EXPECT_FALSE(gates(DType::kBF16, "uniform:0.75:1", k)) << k;
  }
  EXPECT_LT(GainOfSequentialSums(DType::kBF16, 0.75, 1, 60304), -2e-5);
  EXPECT_TRUE(gates(DType::kBF16, "uniform:0.75:1", 16384));
}

// One operand's elements.
class OneOperand final : public HostInputs {
 public:
  explicit OneOperand(const std::vector<double>& x) : x_(x) {}
  void Read(int, std::int64_t begin, std::int64_t count, double* out) const override {
    std::copy_n(x_.begin() + begin, count, out);
  }

 private:
  const std::vector<double>& x_;
};

enum class Arrangement : std::uint8_t { kDrawn, kAscending, kDescending };

// Rows of a case's data, with r and E of each element.
struct Scene {
  Case c;
  Plan plan;
  std::vector<double> x, value, allowance;
  std::int64_t rows = 0, cols = 0;

  Scene(const Problem& problem, DType input, const char* pattern, Arrangement arrangement)
      : c(MakeCase(problem, input)) {
    c.pattern = pattern;
    c.out_dtype = input == DType::kF64 ? DType::kF64 : DType::kF32;
    plan = PlanOf(c);
    rows = plan.output.extents.rows;
    cols = plan.output.extents.cols;
    Generator generator(plan.inputs[0].pattern, /*seed=*/7, 0, /*epoch=*/0, rows, cols, input);
    const auto count = static_cast<std::size_t>(rows * cols);
    x.resize(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = generator.Value(static_cast<std::int64_t>(i));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto begin = x.begin() + row * cols;
      if (arrangement != Arrangement::kDrawn) std::sort(begin, begin + cols);
      if (arrangement == Arrangement::kDescending) std::reverse(begin, begin + cols);
    }
    value.resize(count);
    allowance.resize(count);
    OpOf(c).ReferenceAt(c, plan, OneOperand(x), AllIndices(rows * cols), value.data(),
                        allowance.data());
  }

  // The largest |y − r|/T of a kernel's rows.
  template <class Kernel>
  double Rho(const Kernel& kernel) const {
    const OutputRounding rounding = OutputRoundingOf(plan.output.dtype);
    double rho = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t first = row * cols;
      const std::vector<float> y =
          kernel(std::vector<float>(x.begin() + first, x.begin() + first + cols));
      for (std::int64_t i = 0; i < cols; ++i) {
        const auto at = static_cast<std::size_t>(first + i);
        if (!std::isfinite(value[at])) continue;
        const double error =
            std::abs(static_cast<double>(y[static_cast<std::size_t>(i)]) - value[at]);
        rho = std::max(rho, error / TBound(rounding, value[at], allowance[at]));
      }
    }
    return rho;
  }
};

constexpr std::int64_t kLengths[] = {100, 1000, 8192, 65536};
constexpr DType kInputs[] = {DType::kF32, DType::kF16, DType::kBF16};

std::int64_t RowsOf(std::int64_t cols) { return cols > 10000 ? 1 : 4; }

std::string Name(const Scene& s, std::string_view kernel) {
  return std::string(kernel) + ", " + s.c.pattern + ", " + DefaultName(s.c);
}

TEST(RowDepth, NoRightSoftmaxIsBeyondItsBound) {
  for (const char* pattern :
       {"normal", "normal:0.001", "normal:0.01", "normal:4", "normal:10", "normal:3:100", "uniform",
        "uniform:-1:1", "uniform:-10:10", "uniform:1000:1001", "integers:-8:8", "all-positive",
        "constant:0.1", "sequential", "sparse", "col-vary", "extremes", "near-constant:1:1e-3",
        "large-small:3"}) {
    for (const DType input : kInputs) {
      for (const std::int64_t cols : kLengths) {
        const Scene s(SoftmaxProblem{.rows = RowsOf(cols), .cols = cols}, input, pattern,
                      Arrangement::kDrawn);
        for (const SoftmaxKernel& k : kRightSoftmaxes) {
          EXPECT_LE(s.Rho([&](const std::vector<float>& x) { return SoftmaxOf(k, x); }), 0.8)
              << Name(s, k.name);
        }
      }
    }
  }
}

// Small exponentials that come last are lost wholly.
TEST(RowDepth, NoRightSoftmaxOfSortedRowsIsBeyondItsBound) {
  for (const char* pattern : {"normal", "normal:3", "normal:5", "uniform:-10:10", "all-positive"}) {
    for (const Arrangement arrangement : {Arrangement::kAscending, Arrangement::kDescending}) {
      const Scene s(SoftmaxProblem{.rows = 1, .cols = 65536}, DType::kF32, pattern, arrangement);
      for (const SoftmaxKernel& k : kRightSoftmaxes) {
        EXPECT_LE(s.Rho([&](const std::vector<float>& x) { return SoftmaxOf(k, x); }), 0.8)
            << Name(s, k.name);
      }
    }
  }
}

TEST(RowDepth, NoRightNormIsBeyondItsBound) {
  for (const char* pattern : {"normal",
                              "normal:0.01",
                              "normal:3:5",
                              "normal:1:100",
                              "uniform",
                              "uniform:-1:1",
                              "uniform:1000:1001",
                              "integers:-3:3",
                              "integers:-100:100",
                              "all-positive",
                              "constant:0.1",
                              "constant:1000",
                              "sequential",
                              "sparse",
                              "col-vary",
                              "extremes",
                              "near-constant:1:1e-3",
                              "near-constant:5616:1",
                              "one-large",
                              "large-small"}) {
    for (const DType input : kInputs) {
      for (const std::int64_t cols : kLengths) {
        for (const bool rms : {false, true}) {
          const LayerNormProblem p{.rows = RowsOf(cols), .cols = cols, .rms = rms};
          const Scene s(p, input, pattern, Arrangement::kDrawn);
          for (const NormKernel& k : kRightNorms) {
            EXPECT_LE(s.Rho([&](const std::vector<float>& x) { return NormOf(k, x, 1e-5F, rms); }),
                      0.8)
                << Name(s, k.name);
          }
        }
      }
    }
  }
}

// A bound that counts n roundings hides this: the error is 0.31 of it.
TEST(RowDepth, AWrongEpsIsBeyondTheBound) {
  const Scene s(LayerNormProblem{.rows = 64, .cols = 1000}, DType::kF32, "normal:3:5",
                Arrangement::kDrawn);
  const NormKernel k;
  const double rho = s.Rho([&](const std::vector<float>& x) { return NormOf(k, x, 1e-3F, false); });
  EXPECT_GT(rho, 1);
  EXPECT_LT(rho, s.plan.proven_factor);
  EXPECT_DOUBLE_EQ(s.plan.proven_factor * s.plan.sum_depth, 1000);
}

}  // namespace
}  // namespace assay
