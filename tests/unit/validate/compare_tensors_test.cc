// Tensors of a user's own, compared on the CPU device: every format lands and is
// judged, in whatever pieces it comes; hostile headers are refused before memory.
#include "kernels/validate/compare_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"
#include "tests/unit/validate/compare_tensors_fixture.h"

namespace assay::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

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

// Features of two kinds in one matrix: each half of the rows has its own half of the columns, and
// the sizes are far apart. What rounding gives the small half does not follow from rows and
// columns.
TEST_F(CompareTensors, BlocksOfDifferentSizesAreRight) {
  constexpr std::int64_t kSide = 128, kTerms = 512;
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const auto blocks = [&](std::int64_t rows, std::int64_t cols) {
    std::vector<double> values(static_cast<std::size_t>(rows * cols));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        const bool first = i < rows / 2;
        if (first != (j < cols / 2)) continue;
        const double v = normal(random) * (first ? 100 : 1);
        values[static_cast<std::size_t>(i * cols + j)] = Quantise(v, DType::kF32);
      }
    }
    return values;
  };
  const std::vector<double> a = blocks(kSide, kTerms), b = blocks(kTerms, kSide);
  std::vector<double> d;
  for (std::int64_t i = 0; i < kSide; ++i) {
    for (std::int64_t j = 0; j < kSide; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < kTerms; ++k) {
        sum += static_cast<float>(a[static_cast<std::size_t>(i * kTerms + k)]) *
               static_cast<float>(b[static_cast<std::size_t>(k * kSide + j)]);
      }
      d.push_back(static_cast<double>(sum));
    }
  }
  c_.has_operation = true;
  c_.rule.problem = GemmProblem{.m = kSide, .n = kSide, .k = kTerms};
  c_.rule.dtype = c_.rule.out_dtype = DType::kF32;
  c_.actual = {DType::kF32, {kSide, kSide}};
  c_.inputs = {{DType::kF32, {kSide, kTerms}}, {DType::kF32, {kTerms, kSide}}};
  bytes_ = {Packed(DType::kF32, d), "", Packed(DType::kF32, a), Packed(DType::kF32, b)};
  const CaseOutcome outcome = Done(1 << 20);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  ASSERT_TRUE(outcome.precision);
  EXPECT_LT(outcome.precision->rms, 1.2);
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
}  // namespace assay::testing
