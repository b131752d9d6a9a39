// The data of exact cases: sums stay inside their formats and still need rounding, and a lost part
// of a sum shows.
#include "kernels/ops/common/probe_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"
#include "kernels/validate/host_inputs.h"

namespace assay {
namespace {

TEST(ProbeData, DensitiesKeepSumsInsideTheFormat) {
  EXPECT_EQ(SparseDensity(65536, DType::kBF16, DType::kBF16, {}), 1.0);
  EXPECT_EQ(SparseDensity(1 << 20, DType::kF32, DType::kF32, {}), 1.0);
  EXPECT_EQ(SparseDensity(4096, DType::kE4M3FN, DType::kE4M3FN, {}), 0.875);
  EXPECT_LT(SparseDensity(4096, DType::kE4M3FN, DType::kE4M3FN, {.factor = 2}), 0.8);
  const auto integers = [](std::int64_t k, DType t) { return *IntegerData(k, t, t, {}); };
  EXPECT_EQ(integers(4096, DType::kF16), (Pattern{PatternKind::kExactInts, 1, 2}));
  EXPECT_LT(integers(1 << 16, DType::kF16).a, 0.5);
  EXPECT_LT(integers(1 << 23, DType::kF32).a, 0.3);
  EXPECT_FALSE(IntegerData(64, DType::kE2M1, DType::kE2M1, {}).has_value());
  const SumUse transformed = {.most_products = 1024};
  EXPECT_EQ(IntegerData(1024, DType::kF32, DType::kF32, transformed)->a, 1);
  EXPECT_EQ(IntegerData(4096, DType::kF32, DType::kF32, transformed)->a, 0.5);
}

TEST(ProbeData, ShortSumsStillNeedRounding) {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    for (const std::int64_t k : {1, 3, 16, 64, 256, 1000}) {
      const Pattern p = *IntegerData(k, t, t, {});
      const double largest = std::exp2(p.b);
      EXPECT_GT(static_cast<double>(k) * largest * largest / 4, 2 / Info(t).machine_epsilon)
          << Name(t) << " " << k;
      EXPECT_LE(largest, 2 / Info(t).machine_epsilon);
    }
  }
  EXPECT_EQ(IntegerData(64, DType::kF32, DType::kF32, {})->b, 2);
  EXPECT_LE(IntegerData(64, DType::kE5M2, DType::kF16, {})->b, 3);
}

// Of 8- and 4-bit floats, so that hardware with accumulators of 14 bits gives the digests of
// all others: every partial sum, in any order, is at most 2^13, ten deviations and more.
TEST(ProbeData, SumsOfNarrowFloatsFitFourteenBits) {
  for (const DType t : {DType::kE4M3FN, DType::kE5M2FNUZ, DType::kE2M1}) {
    for (const DType out : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const std::int64_t k : {64, 512, 513, 4096, 1 << 20, 1 << 24}) {
        SCOPED_TRACE(testing::Message() << Name(t) << " " << Name(out) << " " << k);
        const double length = static_cast<double>(k);
        const double d = SparseDensity(k, t, out, {});
        EXPECT_LE(6 * std::sqrt(length) * d, 0x1p13 * (1 + 1e-12));
        for (const SumUse& use : {SumUse{}, SumUse{.factor = 2, .addend = 8}}) {
          const auto p = IntegerData(k, t, out, use);
          ASSERT_TRUE(p.has_value());
          const double products = length * p->a * p->a, largest = std::exp2(2 * p->b);
          if (p->a == 1) {
            EXPECT_LE(length * largest, 0x1p13);
          } else {
            EXPECT_EQ(p->b, 2);
            EXPECT_LE(6.25 * products + 10 * std::sqrt(56.25 * products), 0x1p13);
            EXPECT_GT(6.25 * products, 0x1p10);  // many products, still
          }
        }
      }
    }
  }
}

// A kernel that clips -128 to -127, or adds two products in 16 bits, is seen.
TEST(ProbeData, BytesWhoseOutputIsAFloatAreLarge) {
  constexpr Pattern kLarge = {PatternKind::kExtremes, 128, 32};
  const auto data = [](std::int64_t k, DType output, const SumUse& use) {
    return IntegerData(k, DType::kI8, output, use);
  };
  for (const DType output : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(data(1, output, {}), kLarge);
    EXPECT_EQ(data(5000, output, {}), kLarge);
    EXPECT_EQ(data(500, output, {.factor = 0.25, .addend = 8}), kLarge);
    EXPECT_NE(data(100'000, output, {}), kLarge);
  }
  EXPECT_NE(data(64, DType::kF16, {}), kLarge);  // overflows
  EXPECT_EQ(data(64, DType::kF16, {.factor = 0.0625}), kLarge);

  constexpr std::int64_t kLength = 5000;
  Case c;
  c.problem = GemmProblem{.m = 40, .n = 1, .k = kLength, .scale_a = 0.5, .bias = true};
  c.dtype = DType::kI8;
  c.out_dtype = DType::kF32;
  const std::vector<KernelProbe> probes = GemmOp().Probes(c, *GemmOp().MakePlan(c));
  ASSERT_EQ(probes[1].name, "exact-integers");
  const Plan plan = *GemmOp().MakePlan(probes[1].data);
  const RegeneratedInputs inputs(plan, 1);
  std::vector<double> a(kLength), b(kLength);
  inputs.Read(1, 0, kLength, b.data());
  int clipped = 0, pairs = 0;
  for (std::int64_t row = 0; row < 40; ++row) {
    inputs.Read(0, row * kLength, kLength, a.data());
    double sum = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      sum += a[k] * b[k];
      clipped += a[k] == -128;
      pairs += k % 2 == 1 && a[k] * b[k] + a[k - 1] * b[k - 1] > 32767;
    }
    EXPECT_LE(std::abs(sum), 0x1p23);
  }
  EXPECT_GT(clipped, 40'000);
  EXPECT_GT(pairs, 200);
}

// So is one of a kernel with 32-bit sums.
TEST(ProbeData, BytesWhoseOutputIsWholeMakePairsThatSixteenBitsDoNotHold) {
  constexpr std::int64_t kLength = 64;
  Case c;
  c.problem = GemmProblem{.m = 64, .n = 1, .k = kLength};
  c.dtype = DType::kI8;
  const std::vector<KernelProbe> probes = GemmOp().Probes(c, *GemmOp().MakePlan(c));
  const auto integers = std::find_if(probes.begin(), probes.end(), [](const KernelProbe& probe) {
    return probe.name == "exact-integers";
  });
  ASSERT_NE(integers, probes.end());
  const Plan plan = *GemmOp().MakePlan(integers->data);
  const RegeneratedInputs inputs(plan, 1);
  std::vector<double> b(kLength), a(kLength * 64);
  inputs.Read(1, 0, kLength, b.data());
  inputs.Read(0, 0, kLength * 64, a.data());
  // Of which a product may be one, where b has it.
  const auto lowest = [](const std::vector<double>& values) {
    return std::count(values.begin(), values.end(), -128.0);
  };
  EXPECT_GT(lowest(b), 4);
  EXPECT_GT(lowest(a), 64 * 8);
  EXPECT_LE(*std::max_element(a.begin(), a.end()), -124);
}

TEST(ProbeData, ALostProductOfOneElementShowsInALongSum) {
  for (const auto& [length, least] : {std::pair{4096, 0.95}, {16384, 0.85}}) {
    Case c;
    c.problem = GemmProblem{.m = 100, .n = 1, .k = length};
    c.dtype = DType::kBF16;
    const KernelProbe probe = GemmOp().Probes(c, *GemmOp().MakePlan(c)).front();
    ASSERT_EQ(probe.name, "exact-sparse");
    const Plan plan = *GemmOp().MakePlan(probe.data);
    const RegeneratedInputs inputs(plan, 1);
    std::vector<double> a(static_cast<std::size_t>(length)), b(a.size());
    inputs.Read(1, 0, length, b.data());
    int shown = 0;
    for (std::int64_t row = 0; row < 100; ++row) {
      inputs.Read(0, row * length, length, a.data());
      const double sum = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
      shown += Quantise(sum, DType::kBF16) != Quantise(sum - a[7] * b[7], DType::kBF16);
    }
    EXPECT_GT(shown, 100 * least) << length;
  }
}

TEST(ProbeData, ScalarsBecomePowersOfTwo) {
  EXPECT_EQ(NearPowerOfTwo(1, 2), 1);
  EXPECT_EQ(NearPowerOfTwo(0, 2), 0);
  EXPECT_EQ(NearPowerOfTwo(-0.3, 2), -0.25);
  EXPECT_EQ(NearPowerOfTwo(1e30, 2), 4);
  EXPECT_EQ(NearPowerOfTwo(1e-30, 1), 0.5);
}

// Every sum of them is exact in any order, none overflows, and an element that is clipped shows.
TEST(ReduceProbe, SignsAreAsLargeAsTheirSumAllows) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kBF16, DType::kF16,
                        DType::kE4M3FN, DType::kE5M2FNUZ}) {
    for (const std::int64_t length : {1, 50, 1000, 65542, 1 << 22}) {
      SCOPED_TRACE(testing::Message() << Name(t) << ' ' << length);
      Case c;
      c.problem = ReduceProblem{.extents = {4, length}, .kind = "sum"};
      c.dtype = t;
      const std::vector<KernelProbe> probes = ReduceOp().Probes(c, *ReduceOp().MakePlan(c));
      ASSERT_EQ(probes[1].name, "exact-signs");
      const Plan plan = *ReduceOp().MakePlan(probes[1].data);
      EXPECT_TRUE(plan.exact);
      const Pattern data = plan.inputs[0].pattern;
      const auto n = static_cast<double>(length);
      if (data.kind == PatternKind::kExactSparse) {
        EXPECT_EQ(Info(t).storage_bits, 8);
        EXPECT_LE(6 * std::sqrt(n * data.a), 0x1p13 * (1 + 1e-12));
        continue;
      }
      ASSERT_EQ(data.kind, PatternKind::kExtremes);
      EXPECT_EQ(data.b, 0);
      EXPECT_EQ(std::exp2(std::round(std::log2(data.a))), data.a);
      EXPECT_EQ(Quantise(data.a, t), data.a);
      EXPECT_LE(data.a * n, Info(DType::kF32).max_finite);
      EXPECT_LE(data.a * std::min(n, 6 * std::sqrt(n)), Info(plan.output.dtype).max_finite);
      EXPECT_GT(data.a, Info(t).max_finite > 1e30 ? 1e30 : 0);
    }
  }
}

// 6 of 65,542 elements: less than half a unit in the last place of a sum of positive numbers.
TEST(ReduceProbe, ALostTailOfALongSumShowsThroughTheOutputsRounding) {
  for (const DType t : {DType::kBF16, DType::kF16}) {
    for (const std::int64_t slices : {1, 4}) {
      Case c;
      c.problem = ReduceProblem{.extents = {slices, 65542}, .kind = "sum"};
      c.dtype = t;
      const absl::StatusOr<Plan> planned = ReduceOp().MakePlan(c);
      ASSERT_TRUE(planned.ok());
      const std::vector<KernelProbe> probes = ReduceOp().Probes(c, *planned);
      ASSERT_EQ(probes.size(), 4u);
      EXPECT_EQ(probes[1].name, "exact-signs");
      const auto& p = std::get<ReduceProblem>(probes[1].data.problem);
      const ReduceShape s = p.Split();
      EXPECT_EQ(s.outer, 16);
      EXPECT_EQ(s.length, 65542);
      const Plan plan = *ReduceOp().MakePlan(probes[1].data);
      EXPECT_TRUE(plan.exact);
      std::vector<double> x(static_cast<std::size_t>(s.length));
      int shown = 0;
      for (std::int64_t slice = 0; slice < s.outer; ++slice) {
        RegeneratedInputs(plan, 1).Read(0, slice * s.length, s.length, x.data());
        const double whole = std::accumulate(x.begin(), x.end(), 0.0);
        const double less = std::accumulate(x.begin(), x.end() - 6, 0.0);
        shown += Quantise(whole, plan.output.dtype) != Quantise(less, plan.output.dtype);
      }
      EXPECT_GT(shown, 4);
    }
  }
}

// ---- layer norm

// A layer or RMS norm of a row in FP64.
std::vector<double> Normalised(const std::vector<double>& x, bool rms, double eps) {
  const auto n = static_cast<double>(x.size());
  const double mean = rms ? 0 : std::accumulate(x.begin(), x.end(), 0.0) / n;
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  std::vector<double> y;
  for (const double v : x) y.push_back((v - mean) / std::sqrt(squares / n + eps));
  return y;
}

TEST(LayerNormProbe, LimitedElementsShow) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kBF16, DType::kF16}) {
    for (const bool rms : {false, true}) {
      for (const bool half : {false, true}) {
        SCOPED_TRACE(testing::Message() << Name(t) << ' ' << rms << ' ' << half);
        Case c;
        c.problem = LayerNormProblem{.rows = 16, .cols = 300, .rms = rms};
        c.dtype = t;
        if (half) c.intermediate_dtype = DType::kF16;
        const auto& p = std::get<LayerNormProblem>(c.problem);
        const std::vector<KernelProbe> probes = LayerNormOp().Probes(c, *LayerNormOp().MakePlan(c));
        ASSERT_EQ(probes[1].name, "large");
        ASSERT_EQ(probes[1].skipped, "");
        const Plan plan = *LayerNormOp().MakePlan(probes[1].data);
        EXPECT_LT(plan.largest_intermediate, 0x1p126) << "fp32 holds all sums";
        if (half) {
          EXPECT_LE(LargestMagnitude(plan.inputs[0].pattern), 65504);
          continue;
        }
        double error = 0;
        for (std::int64_t row = 0; row < 16; ++row) {
          std::vector<double> x(300);
          RegeneratedInputs(plan, *probes[1].data.seed).Read(0, row * 300, 300, x.data());
          const std::vector<double> right = Normalised(x, rms, p.eps);
          for (double& v : x) v = std::clamp(v, -1e4, 1e4);
          const std::vector<double> limited = Normalised(x, rms, p.eps);
          for (std::size_t i = 0; i < x.size(); ++i) {
            error = std::max(error, std::abs(right[i] - limited[i]));
          }
        }
        EXPECT_GT(error, 0.5);
      }
    }
  }
}

// x and the weight in the last column are not both so large that fp16 does not hold the result.
TEST(LayerNormProbe, TheLastColumnsResultsAreFinite) {
  for (const bool rms : {false, true}) {
    Case c;
    c.problem = LayerNormProblem{.rows = 4, .cols = 20000, .affine = true, .rms = rms};
    c.dtype = DType::kF16;
    for (const KernelProbe& probe : LayerNormOp().Probes(c, *LayerNormOp().MakePlan(c))) {
      if (probe.name != "last-column") continue;
      const Plan plan = *LayerNormOp().MakePlan(probe.data);
      const double weight = LargestMagnitude(plan.inputs[1].pattern);
      EXPECT_LT(weight * std::sqrt(20000), 65504);
      EXPECT_GT(LargestMagnitude(plan.inputs[0].pattern), 4000);
    }
  }
}

// A kernel that takes the largest numbers for infinities shows.
TEST(LayerNormProbe, TheLastColumnIsTheLargestNumberOf8Bits) {
  for (const DType t : {DType::kE4M3FN, DType::kE5M2, DType::kE4M3FNUZ}) {
    Case c;
    c.problem = LayerNormProblem{.rows = 4, .cols = 20};
    c.dtype = t;
    const std::vector<KernelProbe> probes = LayerNormOp().Probes(c, *LayerNormOp().MakePlan(c));
    ASSERT_EQ(probes[0].name, "last-column");
    const Plan plan = *LayerNormOp().MakePlan(probes[0].data);
    EXPECT_EQ(LargestMagnitude(plan.inputs[0].pattern), Info(t).max_finite);
  }
}

// Each column counts in some row, and few others do there.
TEST(LayerNormProbe, SparseRowsNeedEveryColumn) {
  for (const bool rms : {false, true}) {
    Case c;
    c.problem = LayerNormProblem{.rows = 1, .cols = 1024, .affine = true, .rms = rms};
    c.dtype = DType::kBF16;
    c.kernel_file = "kernel.so";
    int seen = 0;
    for (const KernelProbe& probe : LayerNormOp().Probes(c, *LayerNormOp().MakePlan(c))) {
      if (probe.name != "sparse") continue;
      ++seen;
      const Plan plan = *LayerNormOp().MakePlan(probe.data);
      const Operand& x = plan.inputs[0];
      Generator numbers(x.pattern, kProbeSeed, 0, 0, x.extents.rows, x.extents.cols, x.dtype);
      std::vector<int> in_column(1024);
      for (std::int64_t row = 0, i = 0; row < x.extents.rows; ++row) {
        int kept = 0;
        for (std::size_t col = 0; col < in_column.size(); ++col, ++i) {
          const bool counts = numbers.Value(i) != 0;
          kept += counts;
          in_column[col] += counts;
        }
        EXPECT_GT(kept, 8);
        EXPECT_LT(kept, 100);
      }
      EXPECT_GT(std::count_if(in_column.begin(), in_column.end(), [](int n) { return n > 0; }),
                960);
    }
    EXPECT_EQ(seen, 1);
  }
}

// ---- softmax

Case SoftmaxCase(std::int64_t rows, std::int64_t cols, DType t) {
  Case c;
  c.problem = SoftmaxProblem{.rows = rows, .cols = cols};
  c.dtype = t;
  return c;
}

KernelProbe SoftmaxProbeOf(const Case& c, std::string_view name) {
  for (KernelProbe& probe : SoftmaxOp().Probes(c, *SoftmaxOp().MakePlan(c))) {
    if (probe.name == name) return std::move(probe);
  }
  return {};
}

// The rows of a probe.
std::vector<std::vector<double>> RowsOf(const KernelProbe& probe) {
  const Plan plan = *SoftmaxOp().MakePlan(probe.data);
  const Extents& e = plan.inputs[0].extents;
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(e.rows),
                                        std::vector<double>(static_cast<std::size_t>(e.cols)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RegeneratedInputs(plan, *probe.data.seed)
        .Read(0, static_cast<std::int64_t>(i) * e.cols, e.cols, rows[i].data());
  }
  return rows;
}

// The largest element of a row of softmax, of right forms in fp32 and of one with a constant.
enum class SoftmaxForm { kQuotient, kScaledFirst, kLogarithm, kConstantAdded };

double LargestOf(const std::vector<double>& row, SoftmaxForm form) {
  constexpr float kLog2e = 1.44269504F;
  const auto max = static_cast<float>(*std::max_element(row.begin(), row.end()));
  const float scaled = max * kLog2e;
  const auto power = [&](double x) {
    return form == SoftmaxForm::kScaledFirst
               ? std::exp2(std::fma(static_cast<float>(x), kLog2e, -scaled))
               : std::exp(static_cast<float>(x) - max);
  };
  float sum = 0;
  for (const double x : row) sum += power(x);
  if (form == SoftmaxForm::kLogarithm) return std::exp(max - (max + std::log(sum)));
  if (form == SoftmaxForm::kConstantAdded) return power(max) / (sum + 1e-5F);
  return power(max) * (1 / sum);
}

TEST(SoftmaxProbe, RowsThatFallShowAConstantInTheDenominator) {
  for (const DType t : {DType::kF32, DType::kTF32, DType::kBF16, DType::kF16, DType::kE4M3FN}) {
    for (const std::int64_t cols : {1, 2, 64, 300, 5000, 100000}) {
      SCOPED_TRACE(testing::Message() << Name(t) << ' ' << cols);
      const KernelProbe probe = SoftmaxProbeOf(SoftmaxCase(3, cols, t), "falling");
      for (const std::vector<double>& row : RowsOf(probe)) {
        const double max = *std::max_element(row.begin(), row.end());
        ASSERT_EQ(max, 0);
        const auto ones = static_cast<double>(std::count(row.begin(), row.end(), max));
        const auto error = [&](SoftmaxForm form) {
          return std::abs(LargestOf(row, form) * ones - 1);
        };
        const double allowed = probe.deviation + 0x1p-24;
        EXPECT_LE(error(SoftmaxForm::kQuotient), allowed);
        EXPECT_LE(error(SoftmaxForm::kScaledFirst), allowed);
        EXPECT_LE(error(SoftmaxForm::kLogarithm), allowed);
        if (t == DType::kF32 && cols <= 8000) {
          EXPECT_GT(error(SoftmaxForm::kConstantAdded), 4 * allowed);
        }
      }
    }
  }
}

// Right forms leave all weight on the largest element of rows that are far below 0, in blocks of
// columns, too. A maximum that begins at -1e9 leaves nothing.
TEST(SoftmaxProbe, EachColumnIsFarBelowZeroAndRightInEveryForm) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kBF16}) {
    const KernelProbe probe = SoftmaxProbeOf(SoftmaxCase(3, 50, t), "each-column");
    EXPECT_GT(probe.deviation, 0);
    EXPECT_LT(probe.deviation, 1) << "0 is wrong";
    for (const std::vector<double>& row : RowsOf(probe)) {
      for (const SoftmaxForm form :
           {SoftmaxForm::kQuotient, SoftmaxForm::kScaledFirst, SoftmaxForm::kLogarithm}) {
        EXPECT_EQ(LargestOf(row, form), 1);
      }
      for (const double x : row) {
        EXPECT_LT(x, -1e18);
        const auto scaled = static_cast<float>(x) * 1.44269504F;
        EXPECT_EQ(std::fma(static_cast<float>(x), 1.44269504F, -scaled), 0)
            << "as a block's maximum";
      }
    }
  }
}

TEST(SoftmaxProbe, ASingleRowIsFarBelowZero) {
  for (const std::int64_t rows : {1, 2, 100}) {
    const KernelProbe probe = SoftmaxProbeOf(SoftmaxCase(rows, 50, DType::kF32), "rows-apart");
    const std::vector<std::vector<double>> data = RowsOf(probe);
    EXPECT_EQ(data.size(), static_cast<std::size_t>(std::min<std::int64_t>(rows, 16)));
    EXPECT_LT(data.back()[49], -90000);
    EXPECT_EQ(data[0][0], rows == 1 ? -0x1p17 : 0);
  }
}

// Kernels that hold what they scale in fp16 have no infinity there.
TEST(SoftmaxProbe, WhatFp16HoldsHasRoomWhereItIsDeclared) {
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3FN}) {
    for (const std::int64_t rows : {1, 5}) {
      Case c = SoftmaxCase(rows, 50, t);
      c.intermediate_dtype = DType::kF16;
      for (const char* name : {"each-column", "rows-apart", "last-column"}) {
        for (const std::vector<double>& row : RowsOf(SoftmaxProbeOf(c, name))) {
          for (const double x : row) ASSERT_LT(std::abs(x) * 1.4427, 65504) << Name(t) << name;
        }
      }
    }
  }
}

// Which times log2(e) is exact, so that the exponent of the largest element is 0 in every form.
TEST(SoftmaxProbe, TheLargestElementIsAPowerOfTwo) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16,
                        DType::kE4M3FN, DType::kE5M2}) {
    const KernelProbe probe = SoftmaxProbeOf(SoftmaxCase(3, 50, t), "shift");
    const double top = SoftmaxOp().MakePlan(probe.data)->inputs[0].pattern.b;
    EXPECT_EQ(std::exp2(std::round(std::log2(top))), top) << Name(t);
    EXPECT_EQ(Quantise(top, t), top) << Name(t);
  }
}

// Users' kernels have as many rows as theirs at least.
TEST(SoftmaxProbe, EachColumnIsTheLargestOfARow) {
  for (const std::int64_t cols : {1, 2, 300, 512, 4000}) {
    for (const bool user : {false, true}) {
      Case c = SoftmaxCase(700, cols, DType::kF16);
      if (user) c.kernel_file = "kernel.so";
      const KernelProbe probe = SoftmaxProbeOf(c, "each-column");
      const std::vector<std::vector<double>> rows = RowsOf(probe);
      std::vector<bool> seen(static_cast<std::size_t>(cols));
      for (const std::vector<double>& row : rows) {
        const auto at = std::max_element(row.begin(), row.end());
        EXPECT_EQ(*at, -0x1p14);
        EXPECT_EQ(std::count(row.begin(), row.end(), -0x1p15), cols - 1);
        seen[static_cast<std::size_t>(at - row.begin())] = true;
      }
      const bool all = cols <= 512;
      EXPECT_EQ(std::count(seen.begin(), seen.end(), true) == cols, all) << cols;
      // A kernel that is made for its rows may refuse more of them.
      EXPECT_EQ(SoftmaxProbeOf(c, "last-column").data.pattern, "one-large:32768:-1");
      EXPECT_TRUE(user ? rows.size() >= 700
                       : static_cast<std::int64_t>(rows.size()) * cols <= 1 << 19);
    }
  }
}

// ---- dequant_softmax

struct Logits {
  KernelProbe probe;
  Plan plan;
  std::vector<double> a, w, scale, x;  // x: [m, n]
  std::int64_t m = 0, n = 0;
};

// The operands of a probe and its logits, with `lowest` in place of all weights below it.
Logits LogitsOf(const Case& c, std::string_view name, double lowest = -128) {
  Logits of;
  const std::vector<KernelProbe> probes =
      DequantSoftmaxOp().Probes(c, *DequantSoftmaxOp().MakePlan(c));
  of.probe = *std::find_if(probes.begin(), probes.end(),
                           [&](const KernelProbe& probe) { return probe.name == name; });
  of.plan = *DequantSoftmaxOp().MakePlan(of.probe.data);
  const auto& p = std::get<DequantSoftmaxProblem>(of.probe.data.problem);
  of.m = p.m, of.n = p.n;
  std::vector<double>* operands[] = {&of.a, &of.w, &of.scale};
  for (int i = 0; i < 3; ++i) {
    const std::int64_t count = of.plan.inputs[static_cast<std::size_t>(i)].extents.count();
    operands[i]->resize(static_cast<std::size_t>(count));
    RegeneratedInputs(of.plan, *of.probe.data.seed).Read(i, 0, count, operands[i]->data());
  }
  for (std::int64_t row = 0; row < p.m; ++row) {
    for (std::int64_t col = 0; col < p.n; ++col) {
      double sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        const double w =
            of.w[static_cast<std::size_t>(p.transpose_w ? col * p.k + k : k * p.n + col)];
        sum += of.a[static_cast<std::size_t>(row * p.k + k)] * std::max(w, lowest);
      }
      of.x.push_back(sum * of.scale[static_cast<std::size_t>(col)]);
    }
  }
  return of;
}

Case DequantCase(std::int64_t m, std::int64_t n, std::int64_t k, DType t, bool transpose = false) {
  Case c;
  c.problem = DequantSoftmaxProblem{.m = m, .n = n, .k = k, .transpose_w = transpose};
  c.dtype = t;
  return c;
}

TEST(DequantSoftmaxProbe, ArgmaxHasExactLogitsFarApartAndMostColumnsAsTheLargest) {
  for (const auto& [n, k] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 3}, {100, 64}, {64, 700}}) {
    for (const bool transpose : {false, true}) {
      SCOPED_TRACE(testing::Message() << n << ' ' << k);
      const Logits of = LogitsOf(DequantCase(4, n, k, DType::kF16, transpose), "argmax");
      EXPECT_GE(of.m, std::min<std::int64_t>(2 * n, 90));
      EXPECT_EQ(std::count(of.w.begin(), of.w.end(), -128) > 0, k > 1);
      std::vector<bool> largest(static_cast<std::size_t>(n));
      for (std::int64_t row = 0; row < of.m; ++row) {
        const auto* x = of.x.data() + row * n;
        const double max = *std::max_element(x, x + n);
        for (std::int64_t col = 0; col < n; ++col) {
          EXPECT_LT(std::abs(x[col]), 0x1p30);
          EXPECT_EQ(std::fmod(x[col], 128), 0);
          EXPECT_LE(4 * std::abs(x[col]) * 0x1p-24, of.probe.deviation);
          if (x[col] == max && std::count(x, x + n, max) == 1)
            largest[static_cast<std::size_t>(col)] = true;
        }
      }
      EXPECT_GE(std::count(largest.begin(), largest.end(), true), n == 1 ? 1 : n / 2);
    }
  }
}

// A weight of -128 that is taken for -127 moves the largest logit of most rows.
TEST(DequantSoftmaxProbe, ArgmaxShowsTheLowestWeight) {
  for (const std::int64_t k : {8, 64, 700}) {
    const Case c = DequantCase(4, 100, k, DType::kBF16);
    const Logits of = LogitsOf(c, "argmax"), clamped = LogitsOf(c, "argmax", -127);
    int differ = 0;
    for (std::int64_t row = 0; row < of.m; ++row) {
      const auto *x = of.x.data() + row * of.n, *y = clamped.x.data() + row * of.n;
      differ += std::count(x, x + of.n, *std::max_element(x, x + of.n)) !=
                std::count(y, y + of.n, *std::max_element(y, y + of.n));
    }
    EXPECT_GT(differ, of.m * 3 / 4) << k;
  }
}

// Whichever way the weights lie: all logits are 0 but the last of each row.
TEST(DequantSoftmaxProbe, OnlyTheLastColumnCounts) {
  for (const bool transposed : {false, true}) {
    for (const std::int64_t k : {1, 72, 4096}) {
      Case c = DequantCase(2, 7, k, DType::kF16);
      std::get<DequantSoftmaxProblem>(c.problem).transpose_w = transposed;
      const std::vector<KernelProbe> probes =
          DequantSoftmaxOp().Probes(c, *DequantSoftmaxOp().MakePlan(c));
      ASSERT_EQ(probes[1].name, "last-column");  // of ours
      EXPECT_EQ(probes[1].skipped, "");
      const Plan plan = *DequantSoftmaxOp().MakePlan(probes[1].data);
      const auto value = [&](int operand, std::int64_t row, std::int64_t col) {
        const Operand& o = plan.inputs[static_cast<std::size_t>(operand)];
        Generator numbers(o.pattern, kProbeSeed, static_cast<std::uint32_t>(operand), 0,
                          o.extents.rows, o.extents.cols, o.dtype);
        return numbers.Value(row * o.extents.cols + col);
      };
      for (std::int64_t j = 0; j < 7; ++j) {
        const double weight = transposed ? value(1, j, 0) : value(1, 0, j);
        const double logit = static_cast<double>(k) * value(0, 0, 0) * weight * value(2, 0, j);
        if (j < 6) {
          EXPECT_EQ(logit, 0);
        } else {
          EXPECT_GT(logit, 128);
        }
      }
    }
  }
}

// Every logit is a power of two of one product, which no form of the exponential rounds.
TEST(DequantSoftmaxProbe, FarBelowZeroHasOneExactLargestLogit) {
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const std::int64_t k : {1, 3, 72, 4096}) {
      for (const bool half : {false, true}) {
        Case c = DequantCase(2, 7, k, t);
        if (half) c.intermediate_dtype = DType::kF16;
        const Logits of = LogitsOf(c, "far-below-0");
        EXPECT_EQ(of.a[0] > 65504, t != DType::kF16 && !half);
        for (std::size_t i = 0; i < of.x.size(); ++i) {
          EXPECT_EQ(of.x[i], (half ? -0x1p16 : -0x1p60) * (i % 7 == 0 ? 1 : 2));
        }
        EXPECT_LE(128 * of.scale[1], half ? 65504 : 0x1p61);
        EXPECT_LT(of.probe.deviation, 1) << "0 is wrong";
      }
    }
  }
}

}  // namespace
}  // namespace assay
