// Tensors of a user's own with numbers at the ends of a format's range: sums that overflow, squares
// that underflow, subnormal results. A right kernel's result there may not be agreed on; no device
// is blamed for that, and what is wrong elsewhere is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "hwy/targets.h"
#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"
#include "tests/unit/validate/compare_tensors_fixture.h"

namespace assay::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// What may overflow inside a right kernel is told by what was sent, not by a pattern.
TEST_F(CompareProduct, LargeOperandsMayOverflowInside) {
  const auto judged = [&](double large) {
    // Row 0: large·large − large·large + 1·1, which is 1.
    bytes_[2] = Packed(DType::kF32, {large, -large, 1, 0, 0, 1});
    bytes_[3] = Packed(DType::kF32, {large, 0, large, 0, 1, 1});
    bytes_[0] = Packed(DType::kF32, {kInf, 1, 1, 1});
    const CaseOutcome outcome = Done();
    EXPECT_FALSE(outcome.findings.empty());
    return std::pair(outcome.verdict, std::string(ReasonWord(outcome.findings.front().reason)));
  };
  EXPECT_EQ(judged(0x1p65), std::pair(Verdict::kInconclusive, std::string("suspect")));
  EXPECT_EQ(judged(0x1p20), std::pair(Verdict::kFailed, std::string("class")));
  // A pattern of the operation's made nothing here.
  c_.rule.pattern = "constant:1e30";
  EXPECT_EQ(judged(0x1p20).first, Verdict::kFailed);
}

// Whether the device's reference fuses a product and its sum. The host's does not.
bool DeviceFuses() {
  constexpr std::int64_t kUnfused = HWY_SCALAR | HWY_EMU128 | HWY_SSSE3 | HWY_SSE4;
  return (hwy::SupportedTargets() & HWY_TARGETS & ~kUnfused) != 0;
}

// 1e400 − 1e400 + 1e200 in fp64: fused, it is infinite, and otherwise NaN. The device's reference
// and the host's may be either, and so may a right kernel's result. NaN passes if both are.
class SumsBeyondFp64 : public CompareProduct {
 protected:
  SumsBeyondFp64() {
    c_.rule.problem = GemmProblem{.m = 2, .n = 1, .k = 3};
    c_.rule.dtype = c_.rule.out_dtype = DType::kF64;
    c_.actual = {DType::kF64, {2, 1}};
    c_.inputs = {{DType::kF64, {2, 3}}, {DType::kF64, {3, 1}}};
    bytes_[3] = Packed(DType::kF64, {1e200, 1e200, 1});
  }

  // Of a result of two rows, of which `row` is the second of A.
  std::string Judged(double large, double small, const std::vector<double>& row = {0, 0, 3}) {
    bytes_[0] = Packed(DType::kF64, {large, small});
    std::vector<double> a = {1e200, -1e200, 1e200};
    a.insert(a.end(), row.begin(), row.end());
    bytes_[2] = Packed(DType::kF64, a);
    const CaseOutcome outcome = Done();
    const std::string verdict = outcome.verdict == Verdict::kPassed         ? "PASSED"
                                : outcome.verdict == Verdict::kInconclusive ? "INCONCLUSIVE"
                                : outcome.verdict == Verdict::kFailed       ? "FAILED"
                                                                            : "ERROR";
    if (outcome.findings.empty()) return verdict;
    return Cat(verdict, " ", ReasonWord(outcome.findings.front().reason));
  }
};

TEST_F(SumsBeyondFp64, BlameNoDevice) {
  for (const double result : {kInf, -kInf, kNaN, 1e200}) {
    const bool passes = std::isnan(result) && !DeviceFuses();
    EXPECT_EQ(Judged(result, 3), passes ? "PASSED" : "INCONCLUSIVE suspect") << result;
  }
}

// 1e308 − 2e308 + 1.5e308 is 5e307 if it is fused, and else -Inf, which is rectified to 0.
TEST_F(SumsBeyondFp64, BlameNoDeviceIfTheyAreRectified) {
  for (const std::string activation : {"relu", "gelu", "gelu_tanh"}) {
    c_.rule.problem = GemmProblem{.m = 1, .n = 1, .k = 3, .activation = activation};
    c_.actual = {DType::kF64, {1, 1}};
    c_.inputs = {{DType::kF64, {1, 3}}, {DType::kF64, {3, 1}}};
    bytes_[2] = Packed(DType::kF64, {1e308, -2e154, 1.5e308});
    bytes_[3] = Packed(DType::kF64, {1, 1e154, 1});
    for (const double result : {0.0, kInf, 5e307, kNaN}) {
      bytes_[0] = Packed(DType::kF64, {result});
      EXPECT_EQ(Done().verdict, Verdict::kInconclusive) << activation << " " << result;
    }
  }
}

TEST_F(SumsBeyondFp64, ExcuseNoRowThatDoesNotOverflow) {
  for (const double result : {kInf, kNaN}) {
    EXPECT_EQ(Judged(result, kNaN), "FAILED class") << result;
    EXPECT_THAT(Judged(result, 4), HasSubstr("FAILED")) << result;
  }
}

// Infinite operands make infinite references without any overflow.
TEST_F(SumsBeyondFp64, ExcuseNothingBesideInfiniteOperands) {
  EXPECT_EQ(Judged(kNaN, kInf, {0, 0, kInf}), DeviceFuses() ? "ERROR fault" : "PASSED");
}

// Element [7,9] is 1.5e308 − 1.5e308 + 2: the magnitudes overflow, and its bound with them. It is
// one of 40,000, of which few are sampled.
TEST_F(SumsBeyondFp64, LetNoNumberPassThatHasNoBound) {
  constexpr std::size_t kSide = 200;
  c_.rule.problem = GemmProblem{.m = kSide, .n = kSide, .k = 4};
  c_.actual = {DType::kF64, {kSide, kSide}};
  c_.inputs = {{DType::kF64, {kSide, 4}}, {DType::kF64, {4, kSide}}};
  std::vector<double> a(kSide * 4, 1), b(4 * kSide, 1), d(kSide * kSide, 4);
  a[7 * 4 + 2] = 1e155;
  a[7 * 4 + 3] = -1e155;
  for (const std::size_t k : {2, 3}) b[k * kSide + 9] = 1.5e153;
  for (std::size_t j = 0; j < kSide; ++j) d[7 * kSide + j] = 2;
  for (std::size_t i = 0; i < kSide; ++i) d[i * kSide + 9] = i == 7 ? 2 : 3e153;
  bytes_[2] = Packed(DType::kF64, a);
  bytes_[3] = Packed(DType::kF64, b);
  for (const double result : {2.0, 1e304}) {
    d[7 * kSide + 9] = result;
    bytes_[0] = Packed(DType::kF64, d);
    const CaseOutcome outcome = Done(1 << 20);
    EXPECT_EQ(outcome.verdict, Verdict::kInconclusive) << result;
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_THAT(outcome.findings[0].message,
                HasSubstr("at 1 of 40,000 elements the terms overflow FP64"));
  }
  d[3 * kSide + 9] = 0;
  bytes_[0] = Packed(DType::kF64, d);
  EXPECT_EQ(Done(1 << 20).verdict, Verdict::kFailed) << "an element with a bound";
}

// Outliers that never meet excuse no element whose own sums are small.
TEST_F(CompareProduct, OutliersExcuseNoOtherElement) {
  bytes_[2] = Packed(DType::kF32, {1e20, 0, 0, 1, 2, 3});
  bytes_[3] = Packed(DType::kF32, {0, 1, 1e20, 1, 0, 1});
  bytes_[0] = Packed(DType::kF32, {0, 1e20, 2e20, std::nan("")});
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(ReasonWord(outcome.findings.front().reason), "class");
}

TEST_F(CompareProduct, OnlyWhatFlushingExplainsIsNotAFailure) {
  const double tiny = 0x1p-130;  // fp32 is normal from 2^-126
  bytes_[2] = Packed(DType::kF32, {tiny, 0, 0, 1, 2, 3});
  bytes_[3] = Packed(DType::kF32, {0x1p100, 0, 0, 1, 1, 1});
  bytes_[0] = Packed(DType::kF32, {0x1p-30, 0, 0x1p100, 5});
  EXPECT_EQ(Done().verdict, Verdict::kPassed);
  bytes_[0] = Packed(DType::kF32, {0, 0, 0x1p100, 5});
  const CaseOutcome flushed = Done();
  EXPECT_EQ(flushed.verdict, Verdict::kInconclusive);
  EXPECT_THAT(flushed.findings.front().message, HasSubstr("subnormal inputs"));
  // One subnormal number among them excuses nothing else, whatever the pattern said.
  c_.rule.pattern = "denormal";
  bytes_[0] = Packed(DType::kF32, {0, 0, 0x1p100, 4});
  EXPECT_EQ(Done().verdict, Verdict::kFailed);
  bytes_[2] = Packed(DType::kF32, {1, 0, 0, 1, 2, 3});
  bytes_[0] = Packed(DType::kF32, {0, 0, 0x1p100, 5});
  EXPECT_EQ(Done().verdict, Verdict::kFailed);
}

// Normal numbers may have subnormal products, and code that is compiled for speed gives 0 for them.
TEST_F(CompareProduct, FlushedProductsOfNormalNumbersAreDoubted) {
  bytes_[2] = Packed(DType::kF32, {0x1p-70, 0, 0, 1, 2, 3});
  bytes_[3] = Packed(DType::kF32, {0x1p-60, 0, 0, 1, 1, 1});
  bytes_[0] = Packed(DType::kF32, {0x1p-130, 0, 0x1p-60 + 3, 5});
  EXPECT_EQ(Done().verdict, Verdict::kPassed);
  bytes_[0] = Packed(DType::kF32, {0, 0, 3, 5});
  const CaseOutcome flushed = Done();
  EXPECT_EQ(flushed.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(flushed.findings.empty());
  EXPECT_EQ(ReasonWord(flushed.findings.front().reason), "suspect");
  EXPECT_THAT(flushed.findings.front().message, HasSubstr("0 in place of subnormal products"));
  bytes_[0] = Packed(DType::kF32, {0x1p-100, 0, 3, 5});
  EXPECT_EQ(Done().verdict, Verdict::kFailed) << "far more than flushing loses";
  bytes_[0] = Packed(DType::kF32, {0, 0, 3, 4});
  EXPECT_EQ(Done().verdict, Verdict::kFailed) << "another element is wrong";
}

// An im2col kernel multiplies the padding's zeros, an implicit one skips them.
TEST_F(CompareTensors, InfiniteWeightsBesidePaddingHaveNoAgreedResult) {
  c_.has_operation = true;
  ConvProblem conv;
  conv.channels = conv.filters = 1;
  conv.input = {2, 2};
  conv.kernel = {3, 3};
  conv.padding = {1};
  c_.rule.problem = conv;
  c_.rule.dtype = c_.rule.out_dtype = DType::kF32;
  c_.actual = {DType::kF32, {1, 1, 2, 2}};
  c_.inputs = {{DType::kF32, {1, 1, 2, 2}}, {DType::kF32, {1, 1, 3, 3}}};
  const auto judged = [&](double corner, const std::vector<double>& actual) {
    bytes_ = {Packed(DType::kF32, actual), "", Packed(DType::kF32, {1, 1, 1, 1}),
              Packed(DType::kF32, {corner, 0, 0, 0, 1, 0, 0, 0, 0})};
    return Done();
  };
  EXPECT_EQ(judged(1, {1, 1, 1, 2}).verdict, Verdict::kPassed);
  const double nan = std::nan("");
  for (const std::vector<double>& actual :
       {std::vector<double>{1, 1, 1, kInf}, std::vector<double>{nan, nan, nan, kInf}}) {
    const CaseOutcome outcome = judged(kInf, actual);
    EXPECT_NE(outcome.verdict, Verdict::kFailed);
  }
  EXPECT_EQ(judged(1, {1, 1, 1, nan}).verdict, Verdict::kFailed);
}

// Winograd's transforms and Fourier's mix each element with its neighbours, and their roundings.
TEST_F(CompareTensors, ATransformedConvolutionErrsBesideLargeSums) {
  constexpr std::int64_t kSide = 8;
  c_.has_operation = true;
  ConvProblem conv;
  conv.channels = conv.filters = 1;
  conv.input = {kSide, kSide};
  conv.kernel = {3, 3};
  conv.padding = {1};
  c_.rule.problem = conv;
  c_.rule.dtype = c_.rule.out_dtype = DType::kF32;
  c_.actual = {DType::kF32, {1, 1, kSide, kSide}};
  c_.inputs = {{DType::kF32, {1, 1, kSide, kSide}}, {DType::kF32, {1, 1, 3, 3}}};
  const std::vector<double> weights = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<double> x = Ramp(kSide * kSide, 3);
  std::fill(x.begin() + kSide * kSide / 2, x.end(), 0.0);
  std::vector<double> y(x.size());
  for (std::int64_t i = 0; i < kSide * kSide; ++i) {
    for (std::int64_t k = 0; k < 9; ++k) {
      const std::int64_t row = i / kSide + k / 3 - 1, column = i % kSide + k % 3 - 1;
      if (std::min(row, column) < 0 || std::max(row, column) >= kSide) continue;
      y[static_cast<std::size_t>(i)] +=
          weights[static_cast<std::size_t>(k)] * x[static_cast<std::size_t>(row * kSide + column)];
    }
  }
  const auto judged = [&](std::size_t at, double error) {
    std::vector<double> result = y;
    result[at] += error;
    bytes_ = {Packed(DType::kF32, result), "", Packed(DType::kF32, x),
              Packed(DType::kF32, weights)};
    return Done().verdict;
  };
  constexpr std::size_t kAmongZeros = 7 * kSide + 3, kAmongNumbers = 2 * kSide + 3;
  EXPECT_EQ(judged(kAmongZeros, 0), Verdict::kPassed);
  EXPECT_EQ(judged(kAmongZeros, 1e-6), Verdict::kInconclusive);
  EXPECT_EQ(judged(kAmongZeros, 1), Verdict::kFailed) << "more than any element may err";
  EXPECT_EQ(judged(kAmongZeros, kNaN), Verdict::kFailed);
  EXPECT_EQ(judged(kAmongNumbers, 1), Verdict::kFailed) << "its own sum is large";
}

// A sum of squares beyond fp32 is infinite in a right kernel, and its row is 0.
TEST_F(CompareTensors, ANormOfInfiniteDeviationIsNoFailure) {
  c_.has_operation = true;
  c_.rule.problem = LayerNormProblem{.rows = 4, .cols = 64};
  c_.rule.dtype = c_.rule.out_dtype = DType::kF32;
  c_.actual = {DType::kF32, {4, 64}};
  c_.inputs = {{DType::kF32, {4, 64}}};
  for (const double step : {1e30, 1.0}) {
    bytes_ = {Packed(DType::kF32, std::vector<double>(256)), "",
              Packed(DType::kF32, Ramp(256, step))};
    const CaseOutcome outcome = Done();
    EXPECT_EQ(outcome.verdict, step > 1 ? Verdict::kInconclusive : Verdict::kFailed) << step;
  }
}

// An RMS norm of rows of 64 in T, which may take subnormal numbers for 0, without an eps.
template <class T>
std::vector<double> LoneRms(const std::vector<double>& x, bool flushes) {
  const auto kept = [flushes](T v) {
    return flushes && std::abs(v) < std::numeric_limits<T>::min() ? T{0} : v;
  };
  std::vector<double> y;
  for (std::size_t row = 0; row < x.size(); row += 64) {
    T sum = 0;
    for (std::size_t i = row; i < row + 64; ++i) {
      const T v = static_cast<T>(x[i]);
      sum = kept(sum + kept(v * v));
    }
    const T rstd = 1 / std::sqrt(kept(sum / 64));
    for (std::size_t i = row; i < row + 64; ++i) y.push_back(static_cast<T>(x[i]) * rstd);
  }
  return y;
}

// Without an eps, rows whose squares underflow have no agreed result. The other rows are judged.
TEST_F(CompareTensors, ANormWhoseSquaresUnderflowIsNoFailure) {
  c_.has_operation = true;
  c_.rule.problem = LayerNormProblem{.rows = 4, .cols = 64, .eps = 0, .rms = true};
  for (const DType t : {DType::kF32, DType::kF64}) {
    c_.rule.dtype = c_.rule.out_dtype = t;
    c_.actual = {t, {4, 64}};
    c_.inputs = {{t, {4, 64}}};
    const bool wide = t == DType::kF64;
    for (const double tiny :
         {1.0, 1e-17, 8e-18, 6e-18, 4e-18, 3e-18, 2e-18, 1.5e-18, 1e-18, 1e-19, 1e-20, 1e-22}) {
      std::vector<double> x = Ramp(256, 1);
      const double step = wide ? std::pow(tiny, 8) : tiny;
      for (std::size_t i = 64; i < 128; ++i) x[i] = Quantise(x[i] * step, t);
      for (const bool flushes : {false, true}) {
        std::vector<double> y = wide ? LoneRms<double>(x, flushes) : LoneRms<float>(x, flushes);
        bytes_ = {Packed(t, y), "", Packed(t, x)};
        c_.rule.criterion = Criterion::kUnspecified;
        c_.rule.rtol.reset();
        const CaseOutcome right = Done();
        EXPECT_NE(right.verdict, Verdict::kFailed) << Name(t) << " " << tiny << " " << flushes;
        EXPECT_NE(right.verdict, Verdict::kError) << Name(t) << " " << tiny << " " << flushes;
        if (tiny == 1) {
          EXPECT_EQ(right.verdict, Verdict::kPassed);
        } else if (tiny < 1e-20) {
          EXPECT_EQ(right.verdict, Verdict::kInconclusive);
        }
        // What is wrong elsewhere is wrong.
        for (const double wrong : {y[200] * 1.01, kInf, kNaN}) {
          std::vector<double> broken = y;
          broken[200] = wrong;
          bytes_[0] = Packed(t, broken);
          EXPECT_EQ(Done().verdict, Verdict::kFailed) << Name(t) << " " << tiny << " " << wrong;
        }
        // No number passes for these rows.
        for (const double wrong : {0.0, 5.0, kInf, -1.0, 1.3}) {
          std::vector<double> broken = y;
          for (std::size_t i = 64; i < 128; ++i) {
            broken[i] = std::abs(wrong) < 5 ? y[i] * wrong : wrong;
          }
          bytes_[0] = Packed(t, broken);
          EXPECT_NE(Done().verdict, Verdict::kPassed) << Name(t) << " " << tiny << " " << wrong;
        }
      }
      c_.rule.criterion = Criterion::kAllClose;
      c_.rule.rtol = 0.1;
      std::vector<double> broken = LoneRms<double>(x, false);
      broken[65] = kInf;
      bytes_[0] = Packed(t, broken);
      EXPECT_NE(Done().verdict, Verdict::kPassed) << Name(t) << " " << tiny;
    }
  }
}

// The bound of a sum is that of its terms, whatever it comes to.
TEST_F(CompareTensors, BesideReferencesOfZeroABoundProvesNothing) {
  ReduceProblem sum;
  sum.extents = {4, 6};
  sum.kind = "sum";
  c_.has_operation = true;
  c_.rule.problem = sum;
  c_.rule.dtype = c_.rule.out_dtype = DType::kF32;
  c_.actual = {DType::kF32, {4}};
  c_.inputs = {{DType::kF32, {4, 6}}};
  std::vector<double> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 3 : -3;
  bytes_ = {Packed(DType::kF32, {1e-7, -1e-7, 0, 1e-7}), "", Packed(DType::kF32, x)};
  const CaseOutcome nothing = Done();
  EXPECT_EQ(nothing.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(nothing.findings.empty());
  EXPECT_THAT(nothing.findings[0].message, HasSubstr("as large as the results"));
  bytes_[0] = Packed(DType::kF32, {1, 0, 0, 0});
  EXPECT_EQ(Done().verdict, Verdict::kFailed);
}

// Half of fp64's smallest number is 0, but subnormal results are rounded to whole ones.
TEST_F(CompareTensors, SubnormalResultsOfFp64MayLoseAStep) {
  c_.has_operation = true;
  c_.rule.dtype = c_.rule.out_dtype = DType::kF64;
  c_.actual = {DType::kF64, {4, 64}};
  for (const bool affine : {false, true}) {
    c_.rule.problem =
        LayerNormProblem{.rows = 4, .cols = 64, .eps = 1e20, .affine = affine, .rms = true};
    c_.inputs = {{DType::kF64, {4, 64}}};
    if (affine) c_.inputs.push_back({DType::kF32, {64}});
    const std::vector<double> x = Ramp(256, 1.7e-305), weight(64, 1000);
    std::vector<double> y;
    for (const double v : x) y.push_back(v / std::sqrt(1e20) * (affine ? 1000 : 1));
    for (double& v : y) v = std::nextafter(v, affine ? -1 : v);
    bytes_ = {Packed(DType::kF64, y), "", Packed(DType::kF64, x), Packed(DType::kF32, weight)};
    if (!affine) bytes_.pop_back();
    const CaseOutcome right = Done();
    EXPECT_TRUE(right.verdict == Verdict::kPassed || right.verdict == Verdict::kInconclusive);
    for (double& v : y) v *= 1.5;
    bytes_[0] = Packed(DType::kF64, y);
    EXPECT_EQ(Done().verdict, Verdict::kFailed);
  }
}

// Nor do the references of host and device agree to less than such a step, and each term of a sum
// may lose one.
TEST_F(CompareTensors, AttentionOfSubnormalValuesBlamesNoDevice) {
  constexpr std::size_t kKeys = 64, kDim = 8;
  constexpr double kStep = std::numeric_limits<double>::denorm_min();
  const std::vector<std::int64_t> shape = {1, 1, kKeys, kDim};
  c_.has_operation = true;
  c_.rule.problem = AttentionProblem{.heads = 1, .seq = kKeys, .dim = kDim};
  c_.rule.dtype = c_.rule.out_dtype = DType::kF64;
  c_.actual = {DType::kF64, shape};
  c_.inputs = {{DType::kF64, shape}, {DType::kF64, shape}, {DType::kF64, shape}};
  const std::vector<double> q = Ramp(kKeys * kDim, 0.02), v = Ramp(kKeys * kDim, 9 * kStep);
  std::vector<double> y(kKeys * kDim, 0.0);
  for (std::size_t row = 0; row < kKeys; ++row) {
    std::vector<double> p(kKeys);
    double l = 0;
    for (std::size_t key = 0; key < kKeys; ++key) {
      double score = 0;
      for (std::size_t d = 0; d < kDim; ++d) score += q[row * kDim + d] * q[key * kDim + d];
      l += p[key] = std::exp(score / std::sqrt(static_cast<double>(kDim)));
    }
    for (std::size_t key = 0; key < kKeys; ++key) {
      for (std::size_t d = 0; d < kDim; ++d) {
        y[row * kDim + d] += p[key] / l * v[key * kDim + d];
      }
    }
  }
  for (const double off : {0.0, 5 * kStep, -5 * kStep, 1e-300}) {
    std::vector<double> result = y;
    for (double& value : result) value += off;
    bytes_ = {Packed(DType::kF64, result), "", Packed(DType::kF64, q), Packed(DType::kF64, q),
              Packed(DType::kF64, v)};
    const CaseOutcome outcome = Done();
    EXPECT_EQ(outcome.verdict, off < 1e-310 ? Verdict::kPassed : Verdict::kFailed)
        << off << " " << (outcome.findings.empty() ? "" : outcome.findings[0].message);
  }
}

// Attention masks often are the format's lowest number, whose distance to a score overflows fp64.
TEST_F(CompareTensors, ASoftmaxWithAMaskOfTheLowestNumberIsJudged) {
  constexpr double kLowest = std::numeric_limits<double>::lowest();
  c_.has_operation = true;
  c_.rule.problem = SoftmaxProblem{.rows = 2, .cols = 3};
  c_.rule.dtype = c_.rule.out_dtype = DType::kF64;
  c_.actual = {DType::kF64, {2, 3}};
  c_.inputs = {{DType::kF64, {2, 3}}};
  const double weight = 1 / (1 + std::exp(-2.0));
  bytes_ = {Packed(DType::kF64, {weight, 0, 1 - weight, 1, 0, 0}), "",
            Packed(DType::kF64, {3, kLowest, 1, -5, kLowest, kLowest})};
  EXPECT_EQ(Done().verdict, Verdict::kPassed);
  bytes_[0] = Packed(DType::kF64, {weight, 1e-3, 1 - weight, 1, 0, 0});
  EXPECT_NE(Done().verdict, Verdict::kPassed);
}

}  // namespace
}  // namespace assay::testing
