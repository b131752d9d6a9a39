// dequant_softmax: the plain reference against arithmetic by hand and identities, the fast
// one against it, and its bound against FP32 kernels of every kind: none is beyond it, and
// it is not far from the worst of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference_cpu.h"
#include "kernels/runtime/device.h"
#include "tests/unit/ops/row_fits.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kU = 0x1p-24;
constexpr DType kFormats16And32[] = {DType::kF32, DType::kF16, DType::kBF16};

// Data of the plan's own kinds, whole weights among them.
std::function<double(int, std::int64_t)> Values(const Plan& plan, std::uint64_t seed,
                                                double sigma = 1, double mean = 0) {
  auto engine = std::make_shared<std::mt19937_64>(seed);
  const Pattern scales = plan.inputs[2].pattern;
  return [=](int operand, std::int64_t) -> double {
    if (operand == 0) return mean + sigma * std::normal_distribution<double>()(*engine);
    if (operand == 1) return static_cast<double>((*engine)() % 255) - 127;
    return std::uniform_real_distribution<double>(scales.a, scales.b)(*engine);
  };
}

Case CaseOf(const DequantSoftmaxProblem& p, DType in, DType out = DType::kUnspecified) {
  Case c = MakeCase(p, in);
  c.out_dtype = out;
  return c;
}

PlainResult ExpectFastIsPlain(const Case& c,
                              const std::function<double(int, std::int64_t)>& values = {}) {
  SCOPED_TRACE(DefaultName(c));
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, values ? values : Values(plan, 1));
  const PlainResult plain = PlainReference(DequantSoftmaxOp(), c, plan, tensors);
  PlainResult fast{std::vector<double>(plain.value.size(), -1),
                   std::vector<double>(plain.value.size(), -1)};
  DequantSoftmaxReferenceCpu(p, MakeDequantSoftmaxBound(p, c.dtype, plan), tensors.views(),
                             fast.value.data(), fast.allowance.data());
  for (std::size_t i = 0; i < fast.value.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    ExpectClose(fast.value[i], plain.value[i], 1e-10 * std::abs(plain.value[i]), index);
    ExpectClose(fast.allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i], index);
  }
  return fast;
}

// Small exponentials that a kernel of bf16 holds in fp16, whose steps near 0 are larger.
TEST(DequantSoftmaxReference, ADeclaredFormatHasItsOwnSteps) {
  const Case c = CaseOf({.m = 2, .n = 40, .k = 16}, DType::kBF16);
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  Plan plan = PlanOf(c);
  const double before = MakeDequantSoftmaxBound(p, c.dtype, plan).arithmetic.min_normal;
  EXPECT_EQ(before, Info(DType::kF32).min_normal);
  plan.intermediate_step = Info(DType::kF16).min_subnormal;
  const Tensors tensors(plan, Values(plan, 1));
  const PlainResult plain = PlainReference(DequantSoftmaxOp(), c, plan, tensors);
  for (const double allowance : plain.allowance) EXPECT_GE(allowance, plan.intermediate_step);
}

// A matrix unit takes the scaled weights in bf16. Sums, logits and exponentials stay as they are.
TEST(DequantSoftmaxReference, ScaledWeightsMayBeOfTheDeclaredFormat) {
  const DequantSoftmaxProblem p{.m = 16, .n = 96, .k = 64};
  const Case c = CaseOf(p, DType::kBF16);
  Plan plan = PlanOf(c);
  const Tensors tensors(plan, Values(plan, 1));
  const auto at = [&](int operand, std::int64_t i) {
    const TensorView& t = tensors.views()[static_cast<std::size_t>(operand)];
    return ToDouble(t.dtype, LoadBits(t.dtype, t.data, i));
  };
  const auto beyond = [&] {
    const PlainResult plain = PlainReference(DequantSoftmaxOp(), c, plan, tensors);
    int count = 0;
    for (std::int64_t i = 0; i < p.m; ++i) {
      std::vector<double> e(static_cast<std::size_t>(p.n));
      for (std::int64_t j = 0; j < p.n; ++j) {
        double x = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          x += at(0, i * p.k + k) * Quantise(at(1, k * p.n + j) * at(2, j), DType::kBF16);
        }
        e[static_cast<std::size_t>(j)] = std::exp(x);
      }
      const double sum = std::accumulate(e.begin(), e.end(), 0.0);
      for (std::int64_t j = 0; j < p.n; ++j) {
        const auto of = static_cast<std::size_t>(i * p.n + j);
        const double error = e[static_cast<std::size_t>(j)] / sum - plain.value[of];
        if (std::abs(error) > plain.allowance[of]) ++count;
      }
    }
    return count;
  };
  EXPECT_GT(beyond(), 100);
  plan.intermediate_roundoff = Info(DType::kBF16).unit_roundoff;
  EXPECT_EQ(beyond(), 0);
}

TEST(DequantSoftmaxReference, ByHand) {
  // x = 0.5·(3·2 − 1·4), 0.25·(3·−1 − 1·5) = 1, −2.
  const Case c = CaseOf({.m = 1, .n = 2, .k = 2}, DType::kF32);
  const Plan plan = PlanOf(c);
  ASSERT_EQ(plan.inputs.size(), 3u);
  const std::vector<double> data[] = {{3, -1}, {2, -1, 4, 5}, {0.5, 0.25}};
  const auto values = [&](int operand, std::int64_t i) {
    return data[operand][static_cast<std::size_t>(i)];
  };
  const Tensors tensors(plan, values);
  const PlainResult plain = PlainReference(DequantSoftmaxOp(), c, plan, tensors);
  const double y0 = 1 / (1 + std::exp(-3.0)), y1 = 1 - y0;
  EXPECT_NEAR(plain.value[0], y0, 1e-15);
  EXPECT_NEAR(plain.value[1], y1, 1e-15);
  // γ_10 is below 8·√2·u.
  const double c_k = 10 * kU;
  const double d0 = c_k * 0.5 * (6 + 4) + kU * 1, d1 = c_k * 0.25 * (3 + 5) + kU * 2;
  const double shift = y0 * d0 + y1 * d1;
  const double t0 = d0 + shift + kU * (0 + 2 * (1 + 1) + 8 + 2);
  const double t1 = d1 + shift + kU * (2 * 3 + 2 * (2 + 1) + 8 + 2);
  // The rest is of second order.
  EXPECT_NEAR(plain.allowance[0], y0 * t0, 1e-5 * y0 * t0);
  EXPECT_NEAR(plain.allowance[1], y1 * t1, 1e-5 * y1 * t1);
  EXPECT_GE(plain.allowance[0], y0 * t0);
}

TEST(DequantSoftmaxReference, TransposedWeightsAreTheSameWeights) {
  const DequantSoftmaxProblem p{.m = 3, .n = 37, .k = 29};
  DequantSoftmaxProblem t = p;
  t.transpose_w = true;
  const Case c = CaseOf(p, DType::kBF16), ct = CaseOf(t, DType::kBF16);
  const Plan plan = PlanOf(c), plan_t = PlanOf(ct);
  EXPECT_EQ(plan.inputs[1].dims, (std::vector<std::int64_t>{29, 37}));
  EXPECT_EQ(plan_t.inputs[1].dims, (std::vector<std::int64_t>{37, 29}));
  const auto at = [](int operand, std::int64_t k, std::int64_t j) -> double {
    if (operand == 1) return static_cast<double>((31 * k + 17 * j) % 255 - 127);
    return operand == 0 ? 0.01 * static_cast<double>(k % 13 - 6) : 0.1;
  };
  const Tensors rows(plan,
                     [&](int o, std::int64_t i) { return at(o, i / (o == 1 ? 37 : 1), i % 37); });
  const Tensors columns(
      plan_t, [&](int o, std::int64_t i) { return o == 1 ? at(o, i % 29, i / 29) : at(o, i, 0); });
  const PlainResult a = PlainReference(DequantSoftmaxOp(), c, plan, rows);
  const PlainResult b = PlainReference(DequantSoftmaxOp(), ct, plan_t, columns);
  for (std::size_t i = 0; i < a.value.size(); ++i) {
    EXPECT_NEAR(a.value[i], b.value[i], 1e-12 * a.value[i]) << i;
  }
}

TEST(DequantSoftmaxReference, FastIsPlain) {
  for (const DType t : kFormats16And32) {
    for (const std::int64_t n : {1, 7, 33, 300}) {
      for (const std::int64_t k : {1, 31, 65, 500}) {
        ExpectFastIsPlain(CaseOf({.m = 5, .n = n, .k = k}, t));
        ExpectFastIsPlain(CaseOf({.m = 5, .n = n, .k = k, .transpose_w = true}, t));
      }
    }
  }
}

TEST(DequantSoftmaxReference, PermutedColumnsPermuteTheOutput) {
  const Case c = CaseOf({.m = 2, .n = 41, .k = 60}, DType::kF16);
  const Plan plan = PlanOf(c);
  std::vector<std::int64_t> order(41);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
  const auto value = [](int o, std::int64_t row, std::int64_t col) {
    std::mt19937_64 e(static_cast<std::uint64_t>(1 + o * 100000 + row * 1000 + col));
    if (o == 1) return static_cast<double>(e() % 255) - 127;
    return o == 0 ? std::normal_distribution<double>()(e) : 0.001 * static_cast<double>(e() % 9);
  };
  const auto run = [&](bool permuted) {
    return ExpectFastIsPlain(c, [&, permuted](int o, std::int64_t i) {
      if (o == 0) return value(o, i / 60, i % 60);
      const auto col = static_cast<std::size_t>(i % 41);
      return value(o, i / 41, permuted ? order[col] : static_cast<std::int64_t>(col));
    });
  };
  const PlainResult plain = run(false), permuted = run(true);
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t j = 0; j < 41; ++j) {
      const double right = plain.value[row * 41 + static_cast<std::size_t>(order[j])];
      EXPECT_NEAR(permuted.value[row * 41 + j], right, 1e-12 * right);
    }
  }
}

TEST(DequantSoftmaxReference, RowsWithNonFiniteActivationsAreNan) {
  const Case c = CaseOf({.m = 4, .n = 19, .k = 8}, DType::kF32);
  const Plan plan = PlanOf(c);
  const auto base = Values(plan, 3);
  const PlainResult fast = ExpectFastIsPlain(c, [&](int operand, std::int64_t i) {
    const double v = base(operand, i);
    if (operand != 0) return v;
    if (i == 8 + 3) return kInf;
    if (i == 2 * 8 + 3) return -kInf;
    return i == 3 * 8 + 7 ? std::nan("") : v;
  });
  for (std::size_t i = 0; i < 19; ++i) {
    EXPECT_TRUE(std::isfinite(fast.value[i]));
    for (std::size_t row : {1u, 2u, 3u}) {
      EXPECT_TRUE(std::isnan(fast.value[row * 19 + i]));
      EXPECT_EQ(fast.allowance[row * 19 + i], 0.0);
    }
  }
}

// Logits far beyond what FP32 tells apart: the bound says so, and stays a number.
TEST(DequantSoftmaxReference, HugeLogitsAreAllowedEverythingAndNoMore) {
  const Case c = CaseOf({.m = 2, .n = 50, .k = 64}, DType::kF32);
  const Plan plan = PlanOf(c);
  const PlainResult fast = ExpectFastIsPlain(c, Values(plan, 5, 1e12));
  for (std::size_t i = 0; i < fast.value.size(); ++i) {
    EXPECT_TRUE(fast.allowance[i] >= 0 && fast.allowance[i] <= 1) << fast.allowance[i];
  }
  EXPECT_EQ(*std::max_element(fast.allowance.begin(), fast.allowance.end()), 1.0);
}

// ---- FP32 kernels of every kind

enum class Kind { kInOrder, kBackwards, kTree, kScaledFirst, kOnline, kLog2Folded, kFlushing };
constexpr Kind kKinds[] = {Kind::kInOrder, Kind::kBackwards,  Kind::kTree,    Kind::kScaledFirst,
                           Kind::kOnline,  Kind::kLog2Folded, Kind::kFlushing};

float Tree(const std::vector<float>& terms, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return terms[begin];
  const std::size_t middle = begin + (end - begin) / 2;
  return Tree(terms, begin, middle) + Tree(terms, middle, end);
}

std::vector<float> Logits(Kind kind, const std::vector<float>& a, const std::vector<float>& w,
                          const std::vector<float>& s) {
  const std::size_t k = a.size(), n = s.size();
  std::vector<float> x(n), terms(k);
  for (std::size_t j = 0; j < n; ++j) {
    const float first = kind == Kind::kScaledFirst ? s[j] : 1.0F;
    for (std::size_t i = 0; i < k; ++i) terms[i] = a[i] * (first * w[i * n + j]);
    if (kind == Kind::kBackwards) std::reverse(terms.begin(), terms.end());
    const float sum =
        kind == Kind::kTree ? Tree(terms, 0, k) : std::accumulate(terms.begin(), terms.end(), 0.0F);
    x[j] = kind == Kind::kScaledFirst ? sum : sum * s[j];
  }
  return x;
}

std::vector<float> Outputs(Kind kind, const std::vector<float>& x) {
  std::vector<float> e(x.size());
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
  if (kind == Kind::kOnline) {
    for (const float v : x) {
      const float larger = std::max(max, v);
      sum = sum * std::exp(max - larger) + std::exp(v - larger);
      max = larger;
    }
  } else {
    max = *std::max_element(x.begin(), x.end());
  }
  constexpr float kLog2E = 1.44269504F;
  for (std::size_t j = 0; j < x.size(); ++j) {
    e[j] = kind == Kind::kLog2Folded ? std::exp2(std::fma(x[j], kLog2E, -(max * kLog2E)))
                                     : std::exp(x[j] - max);
    if (kind == Kind::kFlushing && e[j] < std::numeric_limits<float>::min()) e[j] = 0;
  }
  if (kind != Kind::kOnline) sum = std::accumulate(e.begin(), e.end(), 0.0F);
  const float factor = 1 / sum;
  for (float& v : e) v = kind == Kind::kFlushing ? v * factor : v / sum;
  return e;
}

// The largest error over bound of one kind of kernel; the factor's bound is the proven one.
double Rho(Kind kind, const Case& c, const Plan& plan, const Tensors& tensors, double factor = 1) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  const ViewInputs inputs(tensors.views());
  const auto read = [&](int operand, std::int64_t begin, std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    inputs.Read(operand, begin, count, values.data());
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> stored = read(1, 0, p.k * p.n), s = read(2, 0, p.n);
  std::vector<float> w(stored.size());  // [k, n]
  for (std::int64_t i = 0; i < p.k * p.n; ++i) {
    const std::int64_t from = p.transpose_w ? i % p.n * p.k + i / p.n : i;
    w[static_cast<std::size_t>(i)] = stored[static_cast<std::size_t>(from)];
  }
  const PlainResult right = PlainReference(DequantSoftmaxOp(), c, plan, tensors);
  const OutputRounding rounding = OutputRoundingOf(plan.output.dtype);
  double rho = 0;
  for (std::int64_t row = 0; row < p.m; ++row) {
    const std::vector<float> y = Outputs(kind, Logits(kind, read(0, row * p.k, p.k), w, s));
    for (std::int64_t j = 0; j < p.n; ++j) {
      const auto at = static_cast<std::size_t>(row * p.n + j);
      const double actual =
          Quantise(static_cast<double>(y[static_cast<std::size_t>(j)]), plan.output.dtype);
      const double t = TBound(rounding, right.value[at], factor * right.allowance[at]);
      const double error = std::abs(actual - right.value[at]);
      if (!(error <= t)) return kInf;
      rho = std::max(rho, error / t);
    }
  }
  return rho;
}

std::vector<float> ReadAll(const Tensors& tensors, int operand) {
  const std::int64_t count = tensors.views()[static_cast<std::size_t>(operand)].extents.count();
  std::vector<double> values(static_cast<std::size_t>(count));
  ViewInputs(tensors.views()).Read(operand, 0, count, values.data());
  return {values.begin(), values.end()};
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

TEST(DequantSoftmaxBound, NoFp32KernelIsBeyondItAndTheWorstAreNear) {
  std::vector<double> narrow, wide;
  int cases = 0;
  std::mt19937_64 draw(11);
  for (const DType in : kFormats16And32) {
    for (const DType out : kFormats16And32) {
      for (const Kind kind : kKinds) {
        for (int i = 0; i < 4; ++i, ++cases) {
          const DequantSoftmaxProblem p{
              .m = 3,
              .n = static_cast<std::int64_t>(1 + draw() % (i == 0 ? 8 : 400)),
              .k = static_cast<std::int64_t>(1 + draw() % (i == 1 ? 8 : 700)),
              .transpose_w = i % 2 == 1};
          const Case c = CaseOf(p, in, out);
          const Plan plan = PlanOf(c);
          constexpr double kSigmas[] = {1, 0.05, 6, 30};
          const Tensors tensors(plan, Values(plan, draw(), kSigmas[i]));
          const double rho = Rho(kind, c, plan, tensors);
          EXPECT_LE(rho, 1.0) << DefaultName(c) << " kind " << static_cast<int>(kind);
          (out == DType::kF32 ? wide : narrow).push_back(rho);
        }
      }
    }
  }
  EXPECT_GE(cases, 200);
  RecordProperty("cases", cases);
  std::cout << cases << " cases: median of the largest error/bound, 16-bit outputs "
            << Median(narrow) << ", fp32 " << Median(wide) << ", largest "
            << *std::max_element(narrow.begin(), narrow.end()) << " and "
            << *std::max_element(wide.begin(), wide.end()) << "\n";
  // As gemm's: looser bounds would let defects through.
  EXPECT_GE(Median(narrow), 0.3);
}

// One kind's errors against the deviations; all its outputs are multiplied by the factor.
Statistics FitsOf(Kind kind, const Case& c, const Plan& plan, const Tensors& tensors,
                  double factor = 1) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  const auto rows = static_cast<std::size_t>(p.m), cols = static_cast<std::size_t>(p.n);
  std::vector<double> value(rows * cols), allowance(rows * cols);
  std::vector<float> deviation(rows * cols), offset(rows, -1), gain(rows, -1);
  ReferenceBuffers out{value.data(), allowance.data()};
  out.deviation = deviation.data();
  out.row_offset = offset.data();
  out.row_gain = gain.data();
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
  EXPECT_TRUE(DequantSoftmaxOp().Reference(c, plan, *device, tensors.views(), out).ok());
  const std::vector<float> w = ReadAll(tensors, 1), s = ReadAll(tensors, 2),
                           a = ReadAll(tensors, 0);
  Fits fits;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto k = static_cast<std::ptrdiff_t>(p.k);
    const auto first = a.begin() + static_cast<std::ptrdiff_t>(row) * k;
    std::vector<double> y(cols);
    const std::vector<float> outputs =
        Outputs(kind, Logits(kind, std::vector<float>(first, first + k), w, s));
    for (std::size_t j = 0; j < cols; ++j) {
      y[j] = Quantise(static_cast<double>(outputs[j]) * factor, plan.output.dtype);
    }
    const std::size_t at = row * cols;
    EXPECT_EQ(offset[row], 0);
    fits.Add(std::span(value).subspan(at, cols), y, std::span(deviation).subspan(at, cols),
             offset[row], gain[row]);
  }
  return fits.Result();
}

TEST(DequantSoftmaxDeviation, RightKernelsStayBelowTheLimitsAndAFactorDoesNot) {
  for (const DType out : kFormats16And32) {
    for (const std::int64_t k : {20, 500}) {
      const Case c = CaseOf({.m = 16, .n = 400, .k = k}, DType::kF32, out);
      const Plan plan = PlanOf(c);
      EXPECT_TRUE(DequantSoftmaxOp().Residuals(c, plan).gates);
      const Tensors tensors(plan, Values(plan, 5));
      for (const Kind kind : kKinds) {
        const Statistics s = FitsOf(kind, c, plan, tensors);
        EXPECT_LE(s.gain, 1.4) << Name(out) << " kind " << static_cast<int>(kind) << " k " << k;
        EXPECT_LE(s.rest, 1.1) << Name(out) << " kind " << static_cast<int>(kind) << " k " << k;
      }
      if (out == DType::kF32) {
        EXPECT_GT(FitsOf(kKinds[0], c, plan, tensors, 1 + 3e-5).gain, 3.1) << k;
      }
    }
  }
}

// Sums of one sign err systematically: beyond the probabilistic bound, within the proven.
TEST(DequantSoftmaxBound, TheProvenOneHoldsOnDataThatAreNotRandom) {
  for (const DType in : kFormats16And32) {
    for (const Kind kind : kKinds) {
      for (const double mean : {1.3, 100.7, 1e4}) {
        const Case c = CaseOf({.m = 2, .n = 40, .k = 3000}, in, DType::kF32);
        const Plan plan = PlanOf(c);
        EXPECT_GT(plan.proven_factor, 1.0);
        const Tensors tensors(plan, [&](int operand, std::int64_t i) -> double {
          if (operand == 0) return mean;
          return operand == 1 ? static_cast<double>(100 + i % 28) : 0.01;
        });
        EXPECT_LE(Rho(kind, c, plan, tensors, plan.proven_factor), 1.0)
            << Name(in) << " kind " << static_cast<int>(kind) << " mean " << mean;
      }
    }
  }
}

}  // namespace
}  // namespace assay
