// The built-in dequant_softmax: right within the bound of its operator, without the term for
// kernels that scale before they subtract, on awkward shapes and special values, for every
// format and SIMD target.
#include <algorithm>
#include <numeric>

#include "tests/unit/providers/builtin_testing.h"

namespace assay {
namespace {

constexpr DType kActivations[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr double kU = 0x1p-24;

struct Operands {
  TestTensor a, w, s, y;
  std::vector<TestTensor*> inputs() { return {&a, &w, &s}; }
};

Case CaseOf(const DequantSoftmaxProblem& p, DType in, DType out) {
  Case c;
  c.problem = p;
  c.dtype = in;
  c.out_dtype = out;
  return c;
}

Operands Make(const DequantSoftmaxProblem& p, DType in, DType out, std::mt19937_64& rng,
              double sigma) {
  Operands o{TestTensor::Dense(in, p.m, p.k),
             p.transpose_w ? TestTensor::Dense(DType::kI8, p.n, p.k)
                           : TestTensor::Dense(DType::kI8, p.k, p.n),
             TestTensor::Dense(DType::kF32, 1, p.n), TestTensor::Dense(out, p.m, p.n)};
  o.a.FillNormal(rng, sigma);
  o.w.FillIntegers(rng, -128, 127);
  const double unit = 1 / (32 * std::sqrt(static_cast<double>(p.k)));
  for (std::int64_t j = 0; j < p.n; ++j) {
    o.s.Set(j, unit * std::uniform_real_distribution<double>(0.5, 1.5)(rng));
  }
  return o;
}

void CheckOutput(const DequantSoftmaxProblem& p, const Operands& o, DType out) {
  const std::vector<double> a = o.a.Values(), w = o.w.Values(), s = o.s.Values(), y = o.y.Values();
  const auto k_at = [&](std::int64_t k, std::int64_t j) {
    return static_cast<std::size_t>(p.transpose_w ? j * p.k + k : k * p.n + j);
  };
  const double c_k =
      std::min(8 * std::sqrt(static_cast<double>(p.k)), static_cast<double>(p.k + 8)) * kU *
      (1 + 1e-3);
  for (std::int64_t row = 0; row < p.m; ++row) {
    std::vector<double> x(static_cast<std::size_t>(p.n)), d(x.size());
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0, absolute = 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        const double product = a[static_cast<std::size_t>(row * p.k + k)] * w[k_at(k, j)];
        sum += product;
        absolute += std::abs(product);
      }
      const auto at = static_cast<std::size_t>(j);
      x[at] = sum * s[at];
      d[at] = c_k * s[at] * absolute + kU * std::abs(x[at]);
    }
    const double max = *std::max_element(x.begin(), x.end());
    double l = 0, shift = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      l += std::exp(x[j] - max);
      shift += std::exp(x[j] - max) * d[j];
    }
    for (std::int64_t j = 0; j < p.n; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double r = std::exp(x[at] - max) / l;
      // A quarter-row of scalar lanes at worst, and the tree.
      const double depth = static_cast<double>(p.n) / 16 + 8;
      const double t = d[at] + shift / l + kU * (2 * (max - x[at]) + 8 + depth);
      ExpectWithin(y[static_cast<std::size_t>(row * p.n + j)], r, r * std::expm1(t), out,
                   row * p.n + j);
    }
  }
}

TEST_P(BuiltinTest, DequantSoftmaxIsWithinItsBoundWithoutTheScaleTerm) {
  const KernelEntry entry = BuiltinDequantSoftmaxCpu();
  constexpr std::int64_t kSizes[] = {1, 31, 33, 63, 65, 1000, 1025};
  int variant = 0;
  for (const DType in : kActivations) {
    for (const DType out : kActivations) {
      for (const std::int64_t n : kSizes) {
        const std::int64_t k = kSizes[static_cast<std::size_t>(++variant) % 7];
        const DequantSoftmaxProblem p{
            .m = 1 + variant % 17, .n = n, .k = k, .transpose_w = variant % 2 == 1};
        SCOPED_TRACE(testing::Message() << Name(in) << " " << Name(out) << " " << p.Describe());
        Operands o = Make(p, in, out, rng_, variant % 3 == 0 ? 5.0 : 1.0);
        LaunchTwice(entry, CaseOf(p, in, out), device_, o.inputs(), o.y);
        if (HasFatalFailure()) return;
        CheckOutput(p, o, out);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// More rows than a chunk's logits: the last chunk has fewer, of other tiles.
TEST_P(BuiltinTest, DequantSoftmaxOfSeveralChunks) {
  const DequantSoftmaxProblem p{.m = 75, .n = 33000, .k = 3};
  Operands o = Make(p, DType::kBF16, DType::kF32, rng_, 1);
  LaunchTwice(BuiltinDequantSoftmaxCpu(), CaseOf(p, DType::kBF16, DType::kF32), device_, o.inputs(),
              o.y);
  CheckOutput(p, o, DType::kF32);
}

// A row with a NaN or an Inf is NaN everywhere, its neighbours are untouched by it; logits of
// thousands neither overflow nor lose the row's sum.
TEST_P(BuiltinTest, DequantSoftmaxTreatsSpecialRowsAsIeeeDoes) {
  for (const std::int64_t n : {1, 16, 33, 200}) {
    for (const DType in : kActivations) {
      const DequantSoftmaxProblem p{.m = 5, .n = n, .k = 40};
      Operands o = Make(p, in, DType::kF32, rng_, 1);
      o.a.Set(1 * 40 + 7, NAN);
      o.a.Set(2 * 40 + 39, INFINITY);
      o.a.Set(3 * 40, -INFINITY);
      for (std::int64_t k = 0; k < 40; ++k) o.a.Set(4 * 40 + k, 3000.0);
      LaunchTwice(BuiltinDequantSoftmaxCpu(), CaseOf(p, in, DType::kF32), device_, o.inputs(), o.y);
      if (HasFatalFailure()) return;
      for (std::int64_t j = 0; j < n; ++j) {
        for (const std::int64_t row : {1, 2, 3}) EXPECT_TRUE(std::isnan(o.y.Get(row * n + j)));
      }
      for (const std::int64_t row : {0, 4}) {
        double sum = 0;
        for (std::int64_t j = 0; j < n; ++j) sum += o.y.Get(row * n + j);
        EXPECT_NEAR(sum, 1, 1e-5);
      }
    }
  }
}

// Columns in another order give their outputs in that order, but for the order of the sum.
TEST_P(BuiltinTest, DequantSoftmaxFollowsItsColumns) {
  const DequantSoftmaxProblem p{.m = 3, .n = 97, .k = 129};
  Operands o = Make(p, DType::kF16, DType::kF32, rng_, 2);
  std::vector<std::int64_t> order(97);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), rng_);
  Operands moved = o;
  for (std::int64_t j = 0; j < p.n; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    moved.s.Set(j, o.s.Get(from));
    for (std::int64_t k = 0; k < p.k; ++k) moved.w.Set(k * p.n + j, o.w.Get(k * p.n + from));
  }
  const Case c = CaseOf(p, DType::kF16, DType::kF32);
  LaunchTwice(BuiltinDequantSoftmaxCpu(), c, device_, o.inputs(), o.y);
  LaunchTwice(BuiltinDequantSoftmaxCpu(), c, device_, moved.inputs(), moved.y);
  for (std::int64_t i = 0; i < p.m * p.n; ++i) {
    const double right = o.y.Get(i / p.n * p.n + order[static_cast<std::size_t>(i % p.n)]);
    ASSERT_NEAR(moved.y.Get(i), right, 64 * kU * right) << i;
  }
}

TEST_P(BuiltinTest, DequantSoftmaxRefusesOtherFormats) {
  Plan plan;
  plan.output.dtype = DType::kF64;
  const auto made = BuiltinDequantSoftmaxCpu().make(
      CaseOf({.m = 1, .n = 8, .k = 8}, DType::kF64, DType::kF64), plan, device_);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(made.status().message()), testing::HasSubstr("fp64"));
}

}  // namespace
}  // namespace assay
