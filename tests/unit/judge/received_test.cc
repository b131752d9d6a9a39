// What operands that were sent say of errors in their result: worked out on a small product of
// which some elements are subnormal.
#include "kernels/judge/received.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/unit/checksum/checksum_gemm.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

using testing::TestGemm;

constexpr double kInf = std::numeric_limits<double>::infinity();

class FailingDevice : public testing::ForwardingDevice {
 public:
  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    if (t.data == lost) return absl::InternalError("lost");
    if (n == 1) read.push_back(b);
    return cpu_->ToHost(t, b, n, d);
  }
  const void* lost = nullptr;
  std::vector<std::int64_t> read;  // elements that were read alone
};

// [30, 30, 1]: rows 3 and 4 are of subnormal elements, and their results normal numbers.
struct Sent {
  explicit Sent(DType dtype = DType::kF32, std::int64_t side = 30)
      : g({.m = side, .n = side, .k = 1}, dtype) {
    g.Fill(1);
    if (dtype == DType::kF32) {
      for (std::int64_t j = 0; j < side; ++j) g.Set(g.inputs[1], 0, 0, j, 1024);
      g.Set(g.inputs[0], 0, 3, 0, 0x1p-130);
      g.Set(g.inputs[0], 0, 4, 0, 0x1p-130);
    }
    g.Compute();
    for (std::int64_t j = 0; j < side; ++j) g.Set(g.output, 0, 3, j, 0);
    compare.worst.index = 3 * side + 7;
    compare.samples.push_back(ElementSample{.index = 3 * side});
  }
  absl::StatusOr<ReceivedOperands> Weigh() {
    return WeighOperands(g.c, GemmOp(), g.plan, device, g.inputs, g.output, g, compare);
  }
  bool Explains() { return Weigh().value().flushing_explains; }
  TestGemm g;
  FailingDevice device;
  CompareResult compare;
};

TEST(ReceivedOperands, FlushingExplainsWhatIsZero) {
  Sent sent;
  EXPECT_TRUE(sent.Explains()) << "row 3 is flushed, and row 4 as it should be";
  sent.compare.worst.index = -1;
  EXPECT_TRUE(sent.Explains());
  sent.compare.samples.clear();
  EXPECT_FALSE(sent.Explains()) << "nothing is known to be wrong";
  sent.compare.worst.index = 0;
  EXPECT_TRUE(sent.Explains()) << "of an element that is right";
  sent.g.plan.exact = true;
  EXPECT_FALSE(sent.Explains());
}

TEST(ReceivedOperands, FlushingExplainsNothingElse) {
  {
    Sent sent;
    sent.compare.samples.push_back(ElementSample{.index = 4 * 30 + 2});
    EXPECT_FALSE(sent.Explains()) << "known to be wrong, and not flushed";
  }
  {
    Sent sent;
    sent.compare.worst.index = 4 * 30 + 2;
    EXPECT_FALSE(sent.Explains());
  }
  {
    Sent sent;
    for (std::int64_t j = 0; j < 30; ++j) sent.g.Set(sent.g.output, 0, 20, j, 3);
    EXPECT_FALSE(sent.Explains()) << "a row that is wrong, of which nobody said so";
  }
  {
    Sent sent;
    for (std::int64_t j = 0; j < 30; ++j) {
      sent.g.Set(sent.g.output, 0, 4, j, 2 * sent.g.Right(0, 4, j));
    }
    EXPECT_FALSE(sent.Explains()) << "neither flushed nor right";
  }
  {
    Sent sent;
    for (std::int64_t j = 0; j < 30; ++j) {
      const double right = sent.g.Right(0, 20, j);
      sent.g.Set(sent.g.output, 0, 20, j, right * (1 + 0x1p-21));  // nine roundings, and some
      sent.g.Set(sent.g.output, 0, 21, j, sent.g.Right(0, 21, j) * (1 + 0x1p-22));
    }
    EXPECT_TRUE(sent.Explains()) << "within the bound";
  }
}

// The smallest numbers of fp64 are so far apart that an error can be exactly as large as its bound.
TEST(ReceivedOperands, AnErrorAsLargeAsItsBoundIsWithinIt) {
  constexpr double kLeast = 0x1p-1074, kSubnormal = 0x1p-1030;
  Sent sent(DType::kF64);
  TestGemm& g = sent.g;
  for (std::int64_t j = 0; j < 30; ++j) g.Set(g.inputs[1], 0, 0, j, 384);
  // The farthest that element (i, 2) may be, with this element of A.
  const auto farthest = [&](std::int64_t i, double a, bool flushes) {
    double value = 0, allowance = 0;
    g.Set(g.inputs[0], 0, i, 0, a);
    GemmOp().ReferenceAt(g.c, g.plan, g, std::vector<std::int64_t>{i * 30 + 2}, &value, &allowance);
    return value +
           TBound(OutputRoundingOf(DType::kF64, flushes), value, g.plan.proven_factor * allowance);
  };
  const double flushed = farthest(3, 0, true);
  farthest(3, kSubnormal, true);
  const double kept = farthest(4, kSubnormal, false);
  ASSERT_GT(kept, 384 * kSubnormal);
  ASSERT_LT(flushed, kept);
  g.Compute();
  const auto explains = [&](double row3, double one) {
    for (std::int64_t j = 0; j < 30; ++j) g.Set(g.output, 0, 3, j, row3);
    g.Set(g.output, 0, 4, 2, one);
    return sent.Explains();
  };
  EXPECT_TRUE(explains(flushed, kept));
  EXPECT_FALSE(explains(flushed + kLeast, kept)) << "not flushed";
  EXPECT_FALSE(explains(flushed, kept + kLeast)) << "neither flushed nor right";
}

// NaN and Inf elsewhere are right, and no fault that the flushing would have to explain.
TEST(ReceivedOperands, FlushingExplainsBesideNaNAndInf) {
  Sent sent;
  TestGemm& g = sent.g;
  g.Set(g.inputs[0], 0, 8, 0, std::nan(""));
  g.Set(g.inputs[0], 0, 9, 0, kInf);
  g.Set(g.inputs[0], 0, 10, 0, 0x1p120);
  for (std::int64_t j = 0; j < 30; ++j) {
    g.Set(g.output, 0, 8, j, std::nan(""));
    g.Set(g.output, 0, 9, j, kInf);
    g.Set(g.output, 0, 10, j, kInf);
  }
  EXPECT_TRUE(sent.Explains());
  g.Set(g.output, 0, 10, 2, -kInf);
  EXPECT_FALSE(sent.Explains()) << "of the other sign";
  g.Set(g.output, 0, 10, 2, kInf);
  g.Set(g.output, 0, 9, 2, std::nan(""));
  EXPECT_FALSE(sent.Explains()) << "NaN for Inf";
  g.Set(g.output, 0, 9, 2, kInf);
  g.Set(g.output, 0, 8, 2, 3);
  EXPECT_FALSE(sent.Explains()) << "a number for NaN";
  g.Set(g.output, 0, 8, 2, std::nan(""));
  EXPECT_TRUE(sent.Explains());
  for (std::int64_t j = 0; j < 30; ++j) g.Set(g.output, 0, 9, j, 3);
  EXPECT_FALSE(sent.Explains()) << "a number for Inf";
  for (std::int64_t j = 0; j < 30; ++j) g.Set(g.output, 0, 9, j, -kInf);
  EXPECT_FALSE(sent.Explains()) << "Inf of the other sign";
}

// The output's subnormal numbers are flushed, too; what is wrong is not measured by them.
TEST(ReceivedOperands, FlushingIsThatOfTheOutput) {
  Sent sent;
  sent.g.Set(sent.g.inputs[0], 0, 5, 0, 0x1p-120);
  sent.g.Set(sent.g.inputs[1], 0, 0, 7, 0x1p-10);
  for (std::int64_t i = 0; i < 30; ++i) {
    if (i != 3) sent.g.Set(sent.g.output, 0, i, 7, sent.g.Right(0, i, 7));
  }
  for (std::int64_t j = 0; j < 30; ++j) sent.g.Set(sent.g.output, 0, 5, j, sent.g.Right(0, 5, j));
  sent.g.Set(sent.g.output, 0, 5, 7, 0);
  sent.compare.worst.index = 5 * 30 + 7;
  EXPECT_TRUE(sent.Explains());
  sent.g.Set(sent.g.output, 0, 4, 2, 0x1p-120 * (1 + 0x1p-7));
  EXPECT_FALSE(sent.Explains());
}

// Elements all over the output, and those that are known to be wrong: each once.
TEST(ReceivedOperands, LookAtElementsEverywhere) {
  for (const bool seeded : {false, true}) {
    Sent sent(DType::kF32, 90);
    if (!seeded) sent.g.c.seed.reset();
    std::vector<std::int64_t> expected =
        GemmOp().Samples(sent.g.c, sent.g.plan, seeded ? 5 : 1, 1024);
    ASSERT_LT(expected.size(), 8100u);
    std::int64_t other = 3 * 90;
    while (std::binary_search(expected.begin(), expected.end(), other)) ++other;
    sent.compare.samples[0].index = other;
    sent.compare.worst.index = expected[5];
    expected.insert(std::lower_bound(expected.begin(), expected.end(), other), other);
    EXPECT_TRUE(sent.Explains());
    EXPECT_EQ(sent.device.read, expected);
    sent.g.Set(sent.g.output, 0, expected[0] / 90, expected[0] % 90, 1e6);
    EXPECT_FALSE(sent.Explains());
  }
}

TEST(ReceivedOperands, OnlySubnormalElementsAreFlushed) {
  Sent sent;
  sent.g.Set(sent.g.inputs[0], 0, 3, 0, 0x1p-126);
  EXPECT_FALSE(sent.Explains()) << "the smallest normal number";
  sent.g.Set(sent.g.inputs[0], 0, 3, 0, -0x1.fp-127);
  EXPECT_TRUE(sent.Explains());
  // Without a subnormal element nobody asks.
  sent.g.Set(sent.g.inputs[0], 0, 3, 0, 0);
  sent.g.Set(sent.g.inputs[0], 0, 4, 0, 1);
  sent.g.Set(sent.g.output, 0, 4, 0, 5);
  sent.device.lost = sent.g.output.data;
  EXPECT_FALSE(sent.Explains());
}

TEST(ReceivedOperands, HaveTheMagnitudesOfTheirElements) {
  Sent sent;
  sent.g.Set(sent.g.inputs[0], 0, 9, 0, -0x1p100);
  sent.g.Set(sent.g.inputs[0], 0, 10, 0, kInf);
  sent.g.Set(sent.g.inputs[1], 0, 0, 9, 0);
  Case c = sent.g.c;
  c.magnitudes = {0x1p100, 1024};
  const Plan plan = GemmOp().MakePlan(c).value();
  const ReceivedOperands received = sent.Weigh().value();
  EXPECT_GT(received.largest_intermediate, 0);
  EXPECT_EQ(received.largest_intermediate, plan.largest_intermediate);
  EXPECT_EQ(received.overflow_allowance, plan.overflow_allowance);
}

TEST(ReceivedOperands, SayWhetherAllOfThemIsFinite) {
  Sent sent;
  EXPECT_TRUE(sent.Weigh().value().all_finite);
  for (const double v : {kInf, std::numeric_limits<double>::quiet_NaN()}) {
    sent.g.Set(sent.g.inputs[1], 0, 0, 9, v);
    EXPECT_FALSE(sent.Weigh().value().all_finite);
  }
  sent.g.Set(sent.g.inputs[1], 0, 0, 9, 1);
  sent.g.Set(sent.g.inputs[0], 0, 3, 0, -kInf);
  EXPECT_FALSE(sent.Weigh().value().all_finite);
}

TEST(ReceivedOperands, HandOnWhatTheDeviceSays) {
  Sent sent;
  for (const void* lost : {sent.g.inputs[0].data, sent.g.inputs[1].data, sent.g.output.data}) {
    sent.device.lost = lost;
    EXPECT_EQ(sent.Weigh().status(), absl::InternalError("lost"));
  }
}

TEST(DoubtForNarrowSums, IsSaidOfTheFirstFinding) {
  Judgement j;
  j.verdict = Verdict::kFailed;
  j.findings = {{Reason::kBound, "3 elements"}, {Reason::kBias, "biased"}};
  DoubtForNarrowSums(DType::kE4M3FN, j);
  EXPECT_EQ(j.verdict, Verdict::kInconclusive);
  ASSERT_EQ(j.findings.size(), 2u);
  EXPECT_EQ(j.findings[0].reason, Reason::kSuspect);
  EXPECT_EQ(j.findings[0].blame, Blame::kNobody);
  EXPECT_EQ(j.findings[0].message,
            "3 elements; sums of 14 bits explain it, which some matrix units have for e4m3fn: "
            "whether this kernel's may be so is not known");
  EXPECT_EQ(j.findings[1].reason, Reason::kBias);
}

TEST(DoubtForNarrowSums, ExplainsNeitherALimitNorOutputsThatDiffer) {
  for (const Reason decides :
       {Reason::kThreshold, Reason::kEfficiency, Reason::kNondeterministic}) {
    Judgement j;
    j.verdict = Verdict::kFailed;
    j.beyond_limit = true;
    j.findings = {{Reason::kBound, "3 elements"}, {Reason::kBias, "biased"}, {decides, "more"}};
    DoubtForNarrowSums(DType::kE4M3FN, j);
    EXPECT_EQ(j.verdict, Verdict::kFailed);
    ASSERT_EQ(j.findings.size(), 3u);
    EXPECT_EQ(j.findings[0].reason, decides);
    EXPECT_EQ(j.findings[1].reason, Reason::kSuspect);
    EXPECT_EQ(j.findings[2].reason, Reason::kBias);
  }
}

// 64 results of about 1. The allowance of number 5 is far smaller than the largest, of number 40.
class TransformExplainsOf : public ::testing::Test {
 protected:
  TransformExplainsOf() : output_(64, 1.0), reference_(64, 1.0), allowance_(64, kLargest / 2) {
    allowance_[40] = kLargest;
    allowance_[5] = kLargest / 64;
    request_.proven_factor = 2;
    request_.allowance = allowance_.data();
  }
  // Number `at` errs by its bound and `beyond` the bound as many times the largest allowance.
  void Err(std::size_t at, double beyond) {
    const double rounding = 0x1p-53;
    const double bound = rounding + request_.proven_factor * allowance_[at];
    output_[at] = 1 - bound - beyond * kLargest;  // exact for powers of two
  }
  bool Explains() {
    request_.output = TensorView{output_.data(), DType::kF64, Extents::Dense(1, 8, 8)};
    request_.reference = reference_.data();
    const absl::StatusOr<bool> explains = TransformExplains(device_, request_, in_double_);
    EXPECT_TRUE(explains.ok()) << explains.status();
    return explains.ok() && *explains;
  }

  static constexpr double kLargest = 0x1p-10;
  std::vector<double> output_, reference_, allowance_;
  FailingDevice device_;
  CompareRequest request_;
  bool in_double_ = false;
};

TEST_F(TransformExplainsOf, ErrorsOfNoMoreThanTheLargestAllowance) {
  Err(5, 2);
  EXPECT_TRUE(Explains());
  Err(5, 2 + 0x1p-40);
  EXPECT_FALSE(Explains());
  Err(5, -1.99 - 4.0 / 64);  // as far above
  EXPECT_TRUE(Explains());
  allowance_[41] = kInf;
  Err(5, 2.01);
  EXPECT_FALSE(Explains()) << "an infinite allowance is not the largest";
  allowance_[40] = 2 * kLargest;
  EXPECT_TRUE(Explains());
  Err(7, 3);
  EXPECT_FALSE(Explains()) << "another errs where sums are large";
  output_[7] = 1;
  Err(9, 0);
  EXPECT_TRUE(Explains()) << "within its bound";
}

// Without a declaration, by 2^-40 of the largest result.
TEST_F(TransformExplainsOf, InDoubleErrorsOfTheLargestResult) {
  in_double_ = true;
  reference_[40] = output_[40] = 1024;
  reference_[41] = output_[41] = kInf;
  Err(5, 0x1p-30 / kLargest);
  EXPECT_TRUE(Explains());
  Err(5, 0x1.01p-30 / kLargest);
  EXPECT_FALSE(Explains());
}

TEST_F(TransformExplainsOf, ElementsWithAnEighthOfTheAllowance) {
  allowance_[5] = kLargest / 8;
  Err(5, 1);
  EXPECT_TRUE(Explains());
  allowance_[5] = kLargest / 7.9;
  Err(5, 1);
  EXPECT_FALSE(Explains());
}

TEST_F(TransformExplainsOf, NoOtherClass) {
  Err(5, 1);
  output_[63] = std::nan("");
  EXPECT_FALSE(Explains());
  output_[63] = kInf;
  EXPECT_FALSE(Explains());
  reference_[63] = kInf;
  EXPECT_TRUE(Explains());
}

TEST_F(TransformExplainsOf, NothingThatIsExact) {
  Err(5, 1);
  request_.exact = true;
  EXPECT_FALSE(Explains());
  request_.exact = false;
  request_.allowance = nullptr;
  EXPECT_FALSE(Explains());
}

TEST_F(TransformExplainsOf, HandsOnWhatTheDeviceSays) {
  ASSERT_TRUE(Explains());
  for (const void* lost :
       {static_cast<const void*>(output_.data()), static_cast<const void*>(reference_.data()),
        static_cast<const void*>(allowance_.data())}) {
    device_.lost = lost;
    EXPECT_EQ(TransformExplains(device_, request_, in_double_).status(),
              absl::InternalError("lost"));
  }
}

TEST(DoubtForTransform, IsSaidOfTheFirstFinding) {
  Judgement j;
  j.verdict = Verdict::kFailed;
  j.findings = {{Reason::kBound, "3 elements"}};
  DoubtForTransform(j);
  EXPECT_EQ(j.verdict, Verdict::kInconclusive);
  EXPECT_EQ(j.findings[0].reason, Reason::kSuspect);
}

TEST(DoubtForFlushing, IsSaidOfTheFirstFinding) {
  Judgement j;
  j.verdict = Verdict::kFailed;
  j.findings = {{Reason::kBound, "3 elements"}};
  DoubtForFlushing(j);
  EXPECT_EQ(j.verdict, Verdict::kInconclusive);
  EXPECT_EQ(j.findings[0].reason, Reason::kSuspect);
  EXPECT_EQ(j.findings[0].blame, Blame::kNobody);
  EXPECT_EQ(j.findings[0].message,
            "3 elements; 0 in place of subnormal products, sums or results explains it: whether "
            "this kernel may give that is not known");
}

}  // namespace
}  // namespace assay
