// Tensors of a user's own, compared on the CPU device: every format lands and is
// judged, in whatever pieces it comes; hostile headers are refused before memory.
#include "kernels/validate/compare_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::string Packed(DType dtype, const std::vector<double>& values) {
  std::string bytes(
      static_cast<std::size_t>(StorageBytes(dtype, static_cast<std::int64_t>(values.size()))),
      '\0');
  std::vector<double> aligned(bytes.size() / sizeof(double) + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    StoreBits(dtype, aligned.data(), static_cast<std::int64_t>(i), RoundToFormat(values[i], dtype));
  }
  std::memcpy(bytes.data(), aligned.data(), bytes.size());
  return bytes;
}

class CompareTensors : public ::testing::Test {
 protected:
  CompareTensors() : device_(MakeCpuDevice(0, ArenaOptions{.max_bytes = 64 << 20})) {}

  // Two tensors of one shape.
  void Two(DType actual, const std::vector<double>& a, DType expected,
           const std::vector<double>& e) {
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(a.size())};
    c_.actual = {actual, shape};
    c_.expected = TensorSpec{expected, shape};
    bytes_ = {Packed(actual, a), Packed(expected, e)};
  }

  absl::StatusOr<CaseOutcome> Run(std::size_t piece = 1000) {
    if (const auto errors = Check(c_); !errors.empty()) {
      return absl::InvalidArgumentError(Cat(errors[0].field, ": ", errors[0].message));
    }
    auto comparison = TensorComparison::Begin(c_, *device_, observer_);
    if (!comparison.ok()) return comparison.status();
    for (std::size_t t = 0; t < bytes_.size(); ++t) {
      for (std::size_t at = 0; at < bytes_[t].size(); at += piece) {
        absl::Status s =
            (*comparison)
                ->Add(static_cast<std::int64_t>(t), std::string_view(bytes_[t]).substr(at, piece));
        if (!s.ok()) return s;
      }
    }
    return (*comparison)->Finish();
  }

  CaseOutcome Done(std::size_t piece = 1000) {
    absl::StatusOr<CaseOutcome> outcome = Run(piece);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *std::move(outcome) : CaseOutcome{};
  }

  std::string Refusal() { return std::string(Run().status().message()); }

  Comparison c_;
  std::vector<std::string> bytes_;
  std::unique_ptr<Device> device_;
  PhaseObserver observer_;
};

std::vector<double> Ramp(std::size_t n, double step) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = (static_cast<double>(i % 97) - 40) * step;
  return values;
}

// Pieces end anywhere, also inside an element.
TEST_F(CompareTensors, EveryFormatLandsInPiecesOfAnySize) {
  for (int t = 1; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    std::vector<double> values = Ramp(1001, 0.25);
    for (double& v : values) v = Quantise(v, dtype);
    for (const DType expected : {dtype, DType::kF64}) {
      Two(dtype, values, expected, values);
      c_.rule.criterion = Criterion::kBitwise;
      for (const std::size_t piece : {std::size_t{7}, std::size_t{100'000}}) {
        const CaseOutcome outcome = Done(piece);
        EXPECT_EQ(outcome.verdict, Verdict::kPassed)
            << Name(dtype) << " against " << Name(expected);
        EXPECT_EQ(outcome.compare->count, 1001);
        EXPECT_EQ(outcome.compare->mismatches, 0);
      }
      // One element changed is one mismatch, with its coordinates and bits.
      std::vector<double> changed = values;
      changed[700] = Quantise(values[700] > 0 ? -1.0 : 1.0, dtype);
      bytes_[0] = Packed(dtype, changed);
      const CaseOutcome outcome = Done(7);
      EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Name(dtype);
      ASSERT_EQ(outcome.compare->mismatches, 1) << Name(dtype);
      EXPECT_EQ(outcome.compare->samples[0].index, 700);
      EXPECT_EQ(outcome.compare->samples[0].actual, changed[700]);
      EXPECT_EQ(outcome.compare->samples[0].actual_bits, RoundToFormat(changed[700], dtype));
    }
  }
}

TEST_F(CompareTensors, DerivedAllowsWhatTheFormatsDo) {
  const std::vector<double> reference = Ramp(500, 0.1);
  std::vector<double> rounded = reference;
  for (double& v : rounded) v = Quantise(v, DType::kF16);
  Two(DType::kF16, rounded, DType::kF64, reference);
  const CaseOutcome passed = Done();
  EXPECT_EQ(passed.verdict, Verdict::kPassed);
  EXPECT_DOUBLE_EQ(*passed.rtol, 0x1p-11);

  Two(DType::kF32, rounded, DType::kF64, reference);
  const CaseOutcome failed = Done();
  EXPECT_EQ(failed.verdict, Verdict::kFailed) << "fp16's rounding is too coarse for fp32";
  EXPECT_THAT(failed.findings.front().message,
              HasSubstr("that of 1 product an element, as accumulations does not say how many"));
  EXPECT_THAT(failed.next_step, HasSubstr("set accumulations to K"));
  c_.rule.accumulations = 2;
  EXPECT_THAT(Done().findings.front().message,
              ::testing::EndsWith("that of 2 products an element"));
  EXPECT_EQ(Done().next_step, "");
  c_.rule.accumulations = 1 << 14;
  EXPECT_EQ(Done().verdict, Verdict::kPassed) << "but not for a sum of 16384 products";
  EXPECT_DOUBLE_EQ(*Done().rtol, 0x1p-10);

  // A reference of a coarser format cannot be held to the finer one's rounding.
  c_.rule.accumulations = 0;
  Two(DType::kF32, reference, DType::kF16, rounded);
  EXPECT_EQ(Done().verdict, Verdict::kPassed);
}

TEST_F(CompareTensors, ExplicitZeroTolerancesAreHonoured) {
  Two(DType::kF32, {1, 2, 3}, DType::kF32, {1, 2, 3.0000002384185791});
  c_.rule.atol = 0.0;
  c_.rule.rtol = 0.0;
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.compare->mismatches, 1);
  EXPECT_EQ(*outcome.atol, 0.0);
  c_.rule.atol = 1e-6;
  EXPECT_EQ(Done().verdict, Verdict::kPassed);
}

TEST_F(CompareTensors, NanRejectsUnderEveryCriterion) {
  for (const Criterion criterion : {Criterion::kDerived, Criterion::kAllClose, Criterion::kUlp,
                                    Criterion::kBitwise, Criterion::kLegacy}) {
    for (const double bad : {kNaN, kInf}) {
      Two(DType::kF32, {1, bad, 3}, DType::kF32, {1, 2, 3});
      c_.rule = Case();
      c_.rule.criterion = criterion;
      if (criterion == Criterion::kAllClose) c_.rule.atol = 1e30;
      if (criterion == Criterion::kUlp) c_.rule.max_ulp = 1e30;
      CaseOutcome outcome = Done();
      ASSERT_EQ(outcome.verdict, Verdict::kFailed) << bad;
      ASSERT_FALSE(outcome.findings.empty());
      EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "class");
      // The same on the other side, and none where both agree.
      bytes_[0].swap(bytes_[1]);
      EXPECT_EQ(Done().verdict, Verdict::kFailed);
      Two(DType::kF32, {1, bad, 3}, DType::kF32, {1, bad, 3});
      EXPECT_EQ(Done().verdict, Verdict::kPassed);
    }
  }
}

// A NaN that happens to have the bits an output is poisoned with is a NaN here.
TEST_F(CompareTensors, PoisonMeansNothing) {
  Two(DType::kF32, {1, 0, 3}, DType::kF32, {1, 2, 3});
  const std::uint32_t poison = 0x7fa5a5a5;
  std::memcpy(bytes_[0].data() + 4, &poison, sizeof poison);
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "class");
  EXPECT_EQ(outcome.compare->unwritten, 0);
  EXPECT_EQ(outcome.compare->nan_count, 1);
}

// Cancellation makes small elements with large relative errors, all of them allowed.
TEST_F(CompareTensors, TheWorstIsWorstByTheTolerance) {
  Two(DType::kF32, {1e-6, 1.0, 2.0}, DType::kF64, {1e-9, 1.0, 2.001});
  c_.rule.atol = 1e-4;
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.compare->worst.index, 2);
  EXPECT_DOUBLE_EQ(outcome.compare->worst.expected, 2.001);
  EXPECT_DOUBLE_EQ(outcome.compare->worst.bound, 1e-4);
}

TEST_F(CompareTensors, HowTheErrorsLieIsSaid) {
  const std::vector<double> right(64, 1.0);
  std::vector<double> wrong = right;
  for (std::size_t i = 24; i < 32; ++i) wrong[i] = 2.0 + static_cast<double>(i % 3);
  Two(DType::kF32, wrong, DType::kF32, right);
  c_.actual.shape = c_.expected->shape = {8, 8};
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.pattern_of_errors, HasSubstr("row 3"));
  // A scalar has no axis to speak of.
  Two(DType::kF32, {1}, DType::kF32, {2});
  c_.actual.shape = c_.expected->shape = {};
  EXPECT_EQ(Done().verdict, Verdict::kFailed);
}

TEST_F(CompareTensors, NothingComparedProvesNothing) {
  Two(DType::kF32, {}, DType::kF64, {});
  CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "empty");
  c_.expected.reset();
  c_.expected_digest = std::string(32, '0');
  bytes_.resize(1);
  EXPECT_EQ(Done().verdict, Verdict::kInconclusive);
}

TEST_F(CompareTensors, ADigestIsHeldAgainstRawAndCanonicalForm) {
  std::vector<double> values = Ramp(333, 0.5);
  values[5] = -0.0;
  Two(DType::kBF16, values, DType::kBF16, values);
  const CaseOutcome whole = Done();
  const auto hex = [](const std::uint64_t(&w)[2]) {
    return absl::StrFormat("%016x%016X", w[0], w[1]);
  };
  c_.expected.reset();
  bytes_.resize(1);
  for (const auto& digest : {whole.compare->digest_raw, whole.compare->digest_canonical}) {
    c_.expected_digest = absl::StrFormat("%016x%016X", digest[0], digest[1]);
    EXPECT_EQ(Done().verdict, Verdict::kPassed);
  }
  EXPECT_NE(hex(whole.compare->digest_raw), hex(whole.compare->digest_canonical));
  values[200] = 12.25;
  bytes_[0] = Packed(DType::kBF16, values);
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "exact");
}

// A·B of 2×3 and 3×2, in fp32.
class CompareProduct : public CompareTensors {
 protected:
  CompareProduct() {
    c_.has_operation = true;
    GemmProblem gemm;
    gemm.m = 2;
    gemm.n = 2;
    gemm.k = 3;
    c_.rule.problem = gemm;
    c_.rule.dtype = DType::kF32;
    c_.rule.out_dtype = DType::kF32;
    c_.actual = {DType::kF32, {2, 2}};
    c_.inputs = {{DType::kF32, {2, 3}}, {DType::kF32, {3, 2}}};
    bytes_ = {Packed(DType::kF32, {58, 64, 139, 154}), "", Packed(DType::kF32, {1, 2, 3, 4, 5, 6}),
              Packed(DType::kF32, {7, 8, 9, 10, 11, 12})};
  }
};

TEST_F(CompareProduct, OperandsGiveTheReferenceAndItsBound) {
  EXPECT_EQ(c_.criterion(), Criterion::kBound);
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  EXPECT_EQ(outcome.compare->count, 4);
  EXPECT_EQ(outcome.compare->max_abs_error, 0.0);

  bytes_[0] = Packed(DType::kF32, {58, 64, 139, 154.001});
  const CaseOutcome wrong = Done();
  EXPECT_EQ(wrong.verdict, Verdict::kFailed);
  ASSERT_FALSE(wrong.findings.empty());
  EXPECT_EQ(ReasonWord(wrong.findings[0].reason), "bound");
  EXPECT_THAT(wrong.findings[0].message, HasSubstr("[1,1]"));
  ASSERT_EQ(wrong.inputs.size(), 2u);
  EXPECT_EQ(*wrong.inputs[1].max, 12);
  EXPECT_THAT(wrong.next_step, Not(IsEmpty()));
}

// Rows may have axes of their own; what is said is in the file's.
TEST_F(CompareProduct, CoordinatesAreTheFilesOwn) {
  c_.actual.shape = {1, 2, 2};
  bytes_[0] = Packed(DType::kF32, {58, 64, 139, 150});
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.findings[0].message, HasSubstr("[0,1,1]"));
  EXPECT_THAT(outcome.plan->output.dims, ElementsAre(1, 2, 2));
}

// The tensor is [3,4,8], and a softmax of it has 12 rows.
TEST_F(CompareTensors, TheErrorsOfAnOperationLieAtTheTensorsOwnCoordinates) {
  std::vector<double> x, y;
  for (int i = 0; i < 96; ++i) x.push_back(0.125 * (i * i * 7 % 31));
  for (int row = 0; row < 12; ++row) {
    double sum = 0;
    for (int j = 0; j < 8; ++j) sum += std::exp(x[static_cast<std::size_t>(8 * row + j)]);
    for (int j = 0; j < 8; ++j) {
      y.push_back(std::exp(x[static_cast<std::size_t>(8 * row + j)]) / sum);
    }
  }
  c_ = Comparison();
  c_.has_operation = true;
  c_.rule.problem = SoftmaxProblem{.rows = 12, .cols = 8};
  c_.rule.dtype = c_.rule.out_dtype = DType::kF32;
  c_.actual = {DType::kF32, {3, 4, 8}};
  c_.inputs = {{DType::kF32, {3, 4, 8}}};
  std::vector<double> one = y;
  one[(2 * 4 + 1) * 8 + 7] *= 1.01;
  bytes_ = {Packed(DType::kF32, one), "", Packed(DType::kF32, x)};
  EXPECT_EQ(Done().pattern_of_errors, "a single element, [2,1,7]");
  std::vector<double> moved = y;
  for (std::size_t i = 32; i < 96; ++i) moved[i] = y[i - 32];
  bytes_[0] = Packed(DType::kF32, moved);
  EXPECT_THAT(Done().pattern_of_errors, HasSubstr("the last 2 indices of axis 0"));
}

// All elements are within their bounds, and the rows' scales are not the case's.
TEST_F(CompareTensors, WhatIsOnlyDoubtedOfANormHasANextStep) {
  constexpr std::size_t kRows = 64, kCols = 777;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  const auto drawn = [&](std::size_t count, double scale, double offset) {
    std::vector<double> values(count);
    for (double& v : values) v = static_cast<float>(offset + scale * normal(random));
    return values;
  };
  const std::vector<double> x = drawn(kRows * kCols, 3, 100), weight = drawn(kCols, 1, 0),
                            bias = drawn(kCols, 1, 0);
  std::vector<double> y;
  for (std::size_t row = 0; row < kRows; ++row) {
    const double* const of = x.data() + row * kCols;
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < kCols; ++j) mean += of[j] / kCols;
    for (std::size_t j = 0; j < kCols; ++j) variance += (of[j] - mean) * (of[j] - mean) / kCols;
    for (std::size_t j = 0; j < kCols; ++j) {
      y.push_back((of[j] - mean) / std::sqrt(variance + 1e-3) * weight[j] + bias[j]);
    }
  }
  c_ = Comparison();
  c_.has_operation = true;
  c_.rule.problem = LayerNormProblem{.rows = kRows, .cols = kCols, .affine = true};
  c_.rule.dtype = c_.rule.out_dtype = DType::kF32;
  c_.actual = {DType::kF32, {kRows, kCols}};
  c_.inputs = {{DType::kF32, {kRows, kCols}}, {DType::kF32, {kCols}}, {DType::kF32, {kCols}}};
  bytes_ = {Packed(DType::kF32, y), "", Packed(DType::kF32, x), Packed(DType::kF32, weight),
            Packed(DType::kF32, bias)};
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_THAT(outcome.findings[0].message, HasSubstr("the scale of the rows, 1/√(variance + eps)"));
  EXPECT_THAT(outcome.next_step, HasSubstr("the constants (eps,"));
}

TEST_F(CompareProduct, AWrongExpectedIsSaid) {
  c_.expected = c_.actual;
  bytes_[1] = bytes_[0];
  EXPECT_EQ(Done().verdict, Verdict::kPassed);
  bytes_[1] = Packed(DType::kF32, {58, 65, 139, 154});
  const CaseOutcome outcome = Done();
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_THAT(outcome.findings[0].message, HasSubstr("EXPECTED is not what the operands give"));
  EXPECT_THAT(outcome.findings[0].message, HasSubstr("[0,1] is 65, computed 64"));
}

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

// 1e400 − 1e400 + 1e200 in fp64: fused, it is infinite, and otherwise NaN. The device's reference
// and the host's may be either, and so may a right kernel's result.
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
    EXPECT_EQ(Judged(result, 3), "INCONCLUSIVE suspect") << result;
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
  EXPECT_EQ(Judged(kNaN, kInf, {0, 0, kInf}), "ERROR fault");
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

// Some matrix units sum 8-bit floats in 14 bits: of a kernel elsewhere that is not known.
TEST_F(CompareProduct, SumsOfFourteenBitsExplainWhatEightBitFloatsMayHave) {
  const auto judged = [&](DType dtype, double error) {
    c_.rule.dtype = dtype;
    c_.inputs = {{dtype, {2, 3}}, {dtype, {3, 2}}};
    bytes_[2] = Packed(dtype, {1, 2, 3, 4, 5, 6});
    bytes_[3] = Packed(dtype, {7, 8, 9, 10, 11, 12});
    bytes_[0] = Packed(DType::kF32, {58, 64, 139, 154 + error});
    return Done();
  };
  const CaseOutcome narrow = judged(DType::kE4M3FN, 0.005);
  EXPECT_EQ(narrow.verdict, Verdict::kInconclusive);
  EXPECT_EQ(ReasonWord(narrow.findings.front().reason), "suspect");
  EXPECT_THAT(narrow.findings.front().message, HasSubstr("sums of 14 bits explain it"));
  EXPECT_EQ(judged(DType::kE4M3FN, 0).verdict, Verdict::kPassed);
  EXPECT_EQ(judged(DType::kE4M3FN, 2).verdict, Verdict::kFailed);
  EXPECT_EQ(judged(DType::kF16, 0.005).verdict, Verdict::kFailed);
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

TEST_F(CompareProduct, OperandsThatAreNotTheOperationsAreRefused) {
  c_.inputs[1].shape = {2, 3};
  EXPECT_THAT(Refusal(), HasSubstr("inputs[1].shape: b must be [3,2], got [2,3]"));
  c_.inputs[1] = {DType::kF16, {3, 2}};
  EXPECT_THAT(Refusal(), HasSubstr("inputs[1].dtype: b is fp32 here, got fp16"));
  c_.inputs.pop_back();
  EXPECT_THAT(Refusal(), HasSubstr("inputs: gemm takes 2 here (a, b), got 1"));
  c_.actual.shape = {4};
  c_.inputs.push_back({DType::kF32, {3, 2}});
  EXPECT_THAT(Refusal(), HasSubstr("actual.shape"));
}

TEST_F(CompareProduct, PaddingIsRefused) {
  std::get<GemmProblem>(c_.rule.problem).lda = 8;
  EXPECT_THAT(Refusal(), HasSubstr("without padding"));
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

// Frameworks keep weight and bias in the format of the model, others in fp32.
TEST_F(CompareTensors, WeightsOfANormMayHaveTheFormatOfItsInput) {
  const std::vector<double> x = {1, 5, 2, 6}, weight = {2, 3}, bias = {10, -1};
  const std::vector<double> y = {-2 + 10, 3 - 1, -2 + 10, 3 - 1};
  for (const DType columns : {DType::kF16, DType::kF32, DType::kBF16}) {
    c_ = {};
    c_.actual = {DType::kF16, {2, 2}};
    c_.has_operation = true;
    c_.rule.problem = LayerNormProblem{.rows = 2, .cols = 2, .eps = 0, .affine = true};
    c_.rule.dtype = DType::kF16;
    c_.inputs = {{DType::kF16, {2, 2}}, {columns, {2}}, {columns, {2}}};
    bytes_ = {Packed(DType::kF16, y), "", Packed(DType::kF16, x), Packed(columns, weight),
              Packed(columns, bias)};
    if (columns == DType::kBF16) {
      EXPECT_THAT(Refusal(), HasSubstr("weight is fp32 here, got bf16"));
      continue;
    }
    const CaseOutcome outcome = Done();
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Name(columns);
    bytes_[0] = Packed(DType::kF16, {8, 2, 8, 2.125});
    EXPECT_EQ(Done().verdict, Verdict::kFailed) << Name(columns);
  }
}

TEST_F(CompareTensors, HostileHeadersAreRefusedBeforeMemory) {
  const auto refused = [&](std::vector<std::int64_t> shape) {
    c_.actual = {DType::kF32, shape};
    c_.expected = TensorSpec{DType::kF32, shape};
    return Refusal();
  };
  EXPECT_THAT(refused({-1}), HasSubstr("actual.shape: extents must be from 0"));
  EXPECT_THAT(refused({INT64_MAX, INT64_MAX}), HasSubstr("actual.shape"));
  EXPECT_THAT(refused({1 << 30, 1 << 30}), HasSubstr("actual.shape: must have at most"));
  EXPECT_THAT(refused(std::vector<std::int64_t>(65, 1)), HasSubstr("at most 64 extents"));
  const std::int64_t many = std::int64_t{1} << 40;
  EXPECT_THAT(refused({many}), HasSubstr(Cat("the arena of cpu:0 has ", 64 << 20)));
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CompareTensors, SizesThatDisagreeWithTheHeaderAreRefused) {
  Two(DType::kF32, {1, 2, 3}, DType::kF64, {1, 2, 3});
  bytes_[1].pop_back();
  EXPECT_THAT(Refusal(), HasSubstr("tensor 1 has 24 bytes by its header, got 23"));
  bytes_[1] += "xx";
  EXPECT_THAT(Refusal(), HasSubstr("tensor 1 has 24 bytes by its header, got at least 25"));
  bytes_[1].pop_back();
  bytes_.push_back("x");
  EXPECT_THAT(Refusal(), HasSubstr("there is no tensor 2"));
  bytes_.pop_back();
  bytes_[0] = std::string(kMostPieceBytes + 1, 'x');
  auto comparison = TensorComparison::Begin(c_, *device_, observer_);
  ASSERT_TRUE(comparison.ok());
  EXPECT_THAT(std::string((*comparison)->Add(0, bytes_[0]).message()), HasSubstr("1048576"));
  EXPECT_THAT(std::string((*comparison)->Add(0, "").message()), HasSubstr("got 0"));
  EXPECT_FALSE((*comparison)->Add(-1, "x").ok());
  EXPECT_FALSE((*comparison)->Add(INT64_MAX, "x").ok());
}

TEST_F(CompareTensors, IntegersMustBeEqual) {
  Two(DType::kI32, {1, -7, 2147483647}, DType::kI32, {1, -7, 2147483647});
  EXPECT_EQ(c_.criterion(), Criterion::kBitwise);
  EXPECT_EQ(Done().verdict, Verdict::kPassed);
  Two(DType::kI32, {1, -7, 2147483646}, DType::kI32, {1, -7, 2147483647});
  EXPECT_EQ(Done().verdict, Verdict::kFailed);
}

TEST_F(CompareTensors, WhatACriterionCannotJudgeIsSaid) {
  const auto refused = [&](DType dtype, Criterion criterion) {
    Two(dtype, {1}, dtype, {1});
    c_.rule.criterion = criterion;
    return Refusal();
  };
  EXPECT_THAT(refused(DType::kI8, Criterion::kDerived), HasSubstr("criterion: derived"));
  EXPECT_THAT(refused(DType::kI32, Criterion::kDerived), HasSubstr("bitwise"));
  c_.rule.max_ulp = 1;
  EXPECT_THAT(refused(DType::kI8, Criterion::kUlp), HasSubstr("int8"));
  c_.rule.max_ulp.reset();
  EXPECT_THAT(refused(DType::kF32, Criterion::kUlp), HasSubstr("max_ulp"));
  EXPECT_THAT(refused(DType::kF32, Criterion::kAllClose), HasSubstr("atol or rtol"));
  EXPECT_THAT(refused(DType::kF32, Criterion::kBound), HasSubstr("operation and inputs"));
  c_.rule = Case();
  for (const double bad : {-1.0, kNaN, kInf}) {
    c_.rule.atol = bad;
    EXPECT_THAT(Refusal(), HasSubstr("atol: must be a finite number")) << bad;
  }
  c_.rule = Case();
  c_.expected_digest = "12";
  EXPECT_THAT(Refusal(), HasSubstr("expected_digest"));
  c_.expected.reset();
  EXPECT_THAT(Refusal(), HasSubstr("32 hexadecimal digits"));
}

}  // namespace
}  // namespace assay
