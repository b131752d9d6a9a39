// Elements that no overflow inside a right kernel explains, counted one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/judge/overflow.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/poison.h"
#include "kernels/ops/op.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
// Longer than what is read from a device at once, by a part.
constexpr std::size_t kCount = (std::size_t{1} << 16) + 100;

// Refuses the n-th read.
class FailingReads : public testing::ForwardingDevice {
 public:
  int left = 1 << 30;
  bool compares = true;
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override {
    if (!compares) return absl::InternalError("the device is gone");
    EXPECT_FALSE(request.digests);
    EXPECT_FALSE(request.poisoned);
    return ForwardingDevice::Compare(request);
  }
  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    if (left-- == 0) return absl::DataLossError("the device is gone");
    return ForwardingDevice::ToHost(t, b, n, d);
  }
};

// A case whose sums may overflow; an element with an allowance below 1 has none that does.
class UnexplainedTest : public ::testing::Test {
 protected:
  UnexplainedTest() : output_(kCount, 1.0F), reference_(kCount, 1.0), allowance_(kCount, 0.5) {
    case_.problem = GemmProblem{};
    case_.dtype = DType::kF32;
    plan_.output.dtype = DType::kF32;
    plan_.largest_intermediate = 1e39;
    plan_.overflow_allowance = 1;
    request_.output = {output_.data(), DType::kF32,
                       Extents::Dense(1, 1, static_cast<std::int64_t>(kCount))};
    request_.reference = reference_.data();
    request_.allowance = allowance_.data();
    request_.proven_factor = 2;
    result_.class_mismatches = 1;
  }

  std::optional<Unexplained> Counted() {
    const auto counted = CountUnexplained(case_, plan_, device_, request_, result_);
    EXPECT_TRUE(counted.ok()) << counted.status();
    return counted.value_or(std::nullopt);
  }

  std::vector<float> output_;
  std::vector<double> reference_, allowance_;
  FailingReads device_;
  Case case_;
  Plan plan_;
  CompareRequest request_;
  CompareResult result_;
};

TEST_F(UnexplainedTest, NothingIsCountedWhereElementsDoNotTell) {
  EXPECT_TRUE(Counted().has_value());
  result_.class_mismatches = 0;
  EXPECT_FALSE(Counted().has_value()) << "nothing is wrong";
  result_.beyond_proven = 1;
  EXPECT_TRUE(Counted().has_value());
  result_.class_mismatches = 1;
  plan_.overflow_allowance = 0;
  EXPECT_FALSE(Counted().has_value()) << "an allowance does not tell";
  plan_.overflow_allowance = 1;
  plan_.largest_intermediate = 1e30;
  EXPECT_FALSE(Counted().has_value()) << "no sum overflows";
  plan_.largest_intermediate = 1e39;
  request_.allowance = nullptr;
  EXPECT_FALSE(Counted().has_value()) << "there are no allowances";
}

// The accumulator of fp64 is fp64, of all others fp32.
TEST_F(UnexplainedTest, SumsOverflowInTheirAccumulator) {
  plan_.largest_intermediate = Info(DType::kF32).max_finite;
  EXPECT_FALSE(MayOverflowInside(case_, plan_));
  plan_.largest_intermediate = 1.0001 * Info(DType::kF32).max_finite;
  EXPECT_TRUE(MayOverflowInside(case_, plan_));
  case_.dtype = DType::kBF16;
  EXPECT_TRUE(MayOverflowInside(case_, plan_));
  case_.dtype = DType::kF64;
  EXPECT_FALSE(MayOverflowInside(case_, plan_));
}

// Sums of fp64 overflow in the references, too: as far as E tells, only where magnitudes are large.
TEST_F(UnexplainedTest, ReferencesOfFp64MayDifferWhereSumsOverflowThem) {
  case_.dtype = DType::kF64;
  plan_.largest_intermediate = HUGE_VAL;
  EXPECT_TRUE(ReferencesMayDiffer(case_, plan_, 5, 1));
  EXPECT_TRUE(ReferencesMayDiffer(case_, plan_, 5, HUGE_VAL));
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, 5, std::nextafter(1.0, 0.0)));
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, 5, NAN));
  // A reference that has overflowed says so itself, and has no allowance.
  for (const double reference : {HUGE_VAL, -HUGE_VAL, static_cast<double>(NAN)}) {
    EXPECT_TRUE(ReferencesMayDiffer(case_, plan_, reference, 0));
  }
  plan_.overflow_allowance = 0;
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, 5, 1e300)) << "E does not tell";
  EXPECT_TRUE(ReferencesMayDiffer(case_, plan_, 5, HUGE_VAL)) << "unless it overflows as well";
  EXPECT_TRUE(ReferencesMayDiffer(case_, plan_, NAN, 0));
  plan_.largest_intermediate = Info(DType::kF64).max_finite;
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, NAN, HUGE_VAL)) << "no sum overflows";
  plan_.largest_intermediate = HUGE_VAL;
  case_.dtype = DType::kF32;
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, NAN, HUGE_VAL)) << "FP64 holds sums of fp32";
}

// An infinite reference has an allowance of 0. In fp64 it has overflowed, where a right kernel may
// not; in fp32 an operand is infinite.
TEST_F(UnexplainedTest, AReferenceThatOverflowsExplainsItsElement) {
  reference_[7] = HUGE_VAL;
  allowance_[7] = 0;
  EXPECT_EQ(Counted()->of_wrong_class, 1);
  case_.dtype = DType::kF64;
  plan_.largest_intermediate = HUGE_VAL;
  EXPECT_EQ(Counted()->of_wrong_class, 0);
  output_[8] = kInf;
  EXPECT_EQ(Counted()->of_wrong_class, 1) << "its own sums are small";
}

// A format without infinities makes a number of an overflow.
TEST_F(UnexplainedTest, AnOverflowEndsFiniteWhereItVanishes) {
  EXPECT_FALSE(OverflowMayEndFinite(case_, plan_)) << "a product's infinity stays one";
  plan_.output.dtype = DType::kE2M1;
  EXPECT_TRUE(OverflowMayEndFinite(case_, plan_));
  plan_.output.dtype = DType::kF32;
  case_.problem = LayerNormProblem{};
  EXPECT_TRUE(OverflowMayEndFinite(case_, plan_));
  plan_.largest_intermediate = 1;
  EXPECT_FALSE(OverflowMayEndFinite(case_, plan_));
}

// In the first part that is read, in the second, and at each end.
TEST_F(UnexplainedTest, EachElementOfAWrongClassCounts) {
  EXPECT_EQ(Counted()->of_wrong_class, 0);
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{65535}, std::size_t{65536}, kCount - 1}) {
    output_[at] = kInf;
  }
  EXPECT_EQ(Counted()->of_wrong_class, 4);
  EXPECT_EQ(Counted()->beyond_proven, 0);
  // Sums of this size may overflow: that explains it.
  allowance_[0] = 1;
  EXPECT_EQ(Counted()->of_wrong_class, 3);
  allowance_[65536] = std::nextafter(1.0, 0.0);
  EXPECT_EQ(Counted()->of_wrong_class, 3);
}

// T = 2^-24·1 + 2^-150 + (1 + 2^-24)·2·E: an error of 1 is beyond it for E = 1/4, not for 1/2.
TEST_F(UnexplainedTest, EachElementBeyondItsBoundCounts) {
  output_[7] = 2;
  output_[70000 - 5000] = 2;
  EXPECT_EQ(Counted()->beyond_proven, 0);
  allowance_[7] = 0.25;
  EXPECT_EQ(Counted()->beyond_proven, 1);
  EXPECT_EQ(Counted()->of_wrong_class, 0);
  // Without an allowance T is 2^-24: an error of that size is within it.
  allowance_[9] = 0;
  output_[9] = 1 - 0x1p-24F;
  EXPECT_EQ(Counted()->beyond_proven, 1);
  output_[9] = 1 - 0x1p-23F;
  EXPECT_EQ(Counted()->beyond_proven, 2);
  output_[9] = 1;
  // NaN where NaN is expected has no error.
  reference_[7] = std::numeric_limits<double>::quiet_NaN();
  output_[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Counted()->beyond_proven, 0);
}

// Elements that were never written are counted apart.
TEST_F(UnexplainedTest, PoisonIsCountedElsewhere) {
  const auto poison = static_cast<std::uint32_t>(PoisonBits(DType::kF32, Poison::kFirst));
  output_[3] = std::bit_cast<float>(poison);
  EXPECT_EQ(Counted()->of_wrong_class, 0);
  request_.poisoned = false;
  EXPECT_EQ(Counted()->of_wrong_class, 1) << "here it is a NaN like others";
  request_.poisoned = true;
  output_[4] = kInf;
  EXPECT_EQ(Counted()->of_wrong_class, 1) << "what follows counts";
}

TEST_F(UnexplainedTest, ADeviceThatCannotBeReadIsAnError) {
  for (int read = 0; read < 6; ++read) {
    device_.left = read;
    EXPECT_EQ(CountUnexplained(case_, plan_, device_, request_, result_).status().code(),
              absl::StatusCode::kDataLoss)
        << read;
  }
}

TEST_F(UnexplainedTest, AnInfinityThatVanishesHasNoAllowance) {
  case_.dtype = DType::kF64;
  plan_.largest_intermediate = std::numeric_limits<double>::infinity();
  for (const bool vanishes : {false, true}) {
    case_.problem = GemmProblem{.activation = vanishes ? "relu" : "none"};
    EXPECT_EQ(ReferencesMayDiffer(case_, plan_, 0, 0), vanishes);
    EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, 0, 1e-300));
  }
  plan_.largest_intermediate = 1;
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, 0, 0));
}

// ---- squares that underflow

TEST_F(UnexplainedTest, SquaresOfANormUnderflowWithoutAnEps) {
  for (const auto& [dtype, least] :
       {std::pair{DType::kF32, 0x1p-126}, {DType::kF16, 0x1p-126}, {DType::kF64, 0x1p-1022}}) {
    case_.dtype = dtype;
    for (const double steps : {0.0, 0.5, 1.0, 107.0, 108.0, 1e6}) {
      case_.problem = LayerNormProblem{.cols = 4, .eps = steps * least};
      EXPECT_EQ(OpOf(case_).SquaresMayVanish(case_), steps < 9 * (4 + 8))
          << Name(dtype) << " " << steps;
    }
    case_.problem = SoftmaxProblem{};
    EXPECT_FALSE(OpOf(case_).SquaresMayVanish(case_));
  }
}

TEST_F(UnexplainedTest, OfANormAnInfiniteAllowanceExplains) {
  case_.problem = LayerNormProblem{.eps = 0};
  plan_.largest_intermediate = 1;
  plan_.overflow_allowance = 0;
  output_[3] = kInf;
  allowance_[3] = HUGE_VAL;
  ASSERT_TRUE(Counted().has_value());
  EXPECT_EQ(Counted()->of_wrong_class, 0);
  output_[4] = kInf;
  output_[5] = 9;
  allowance_[4] = 1e300;
  reference_[4] = HUGE_VAL;
  output_[4] = 1;
  EXPECT_EQ(Counted()->of_wrong_class, 1);
  EXPECT_EQ(Counted()->beyond_proven, 1);
  plan_.largest_intermediate = 1e39;
  EXPECT_FALSE(Counted().has_value()) << "elements do not tell whether their sums overflow";
  plan_.largest_intermediate = 1;
  case_.problem = LayerNormProblem{};
  EXPECT_FALSE(Counted().has_value()) << "the eps outweighs them";
}

TEST_F(UnexplainedTest, ReferencesOfFp64MayDifferWhereSquaresUnderflow) {
  case_.problem = LayerNormProblem{.eps = 0};
  plan_.largest_intermediate = 1;
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, 5, HUGE_VAL)) << "FP64 holds squares of fp32";
  case_.dtype = DType::kF64;
  EXPECT_TRUE(ReferencesMayDiffer(case_, plan_, 5, HUGE_VAL));
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, 5, 1e300));
  case_.problem = LayerNormProblem{};
  EXPECT_FALSE(ReferencesMayDiffer(case_, plan_, 5, HUGE_VAL));
}

// ---- allowances that overflow

class Unbounded : public UnexplainedTest {
 protected:
  Unbounded() {
    case_.dtype = DType::kF64;
    request_.gate = Gate::kBound;
  }

  std::int64_t Unlimited() {
    const absl::StatusOr<std::int64_t> counted = CountUnbounded(case_, device_, request_);
    EXPECT_TRUE(counted.ok()) << counted.status();
    return counted.value_or(-1);
  }
};

TEST_F(Unbounded, CountsEveryElementThatAnyNumberPasses) {
  device_.left = 0;
  EXPECT_EQ(Unlimited(), 0) << "the host reads nothing";
  device_.left = 1 << 30;
  allowance_[0] = allowance_[65535] = allowance_[65536] = HUGE_VAL;
  allowance_[kCount - 1] = NAN;
  EXPECT_EQ(Unlimited(), 4);
  allowance_[7] = 1e308;
  EXPECT_EQ(Unlimited(), 4);
  // Its class judges it.
  reference_[65536] = HUGE_VAL;
  reference_[0] = NAN;
  EXPECT_EQ(Unlimited(), 2);
  for (double& e : allowance_) e = 0.5;
  allowance_[9] = NAN;
  EXPECT_EQ(Unlimited(), 1);
  allowance_[9] = HUGE_VAL;
  EXPECT_EQ(Unlimited(), 1);
  allowance_[10] = NAN;
  EXPECT_EQ(Unlimited(), 2) << "one of each";
}

TEST_F(Unbounded, CountsNothingWhereNoBoundGates) {
  allowance_[3] = HUGE_VAL;
  for (const Gate gate :
       {Gate::kBound, Gate::kBoundProbable, Gate::kAllClose, Gate::kUlp, Gate::kBitwise}) {
    request_.gate = gate;
    const bool bound = gate == Gate::kBound || gate == Gate::kBoundProbable;
    EXPECT_EQ(Unlimited(), bound ? 1 : 0);
  }
  request_.gate = Gate::kBound;
  request_.exact = true;
  EXPECT_EQ(Unlimited(), 0);
  request_.exact = false;
  case_.dtype = DType::kF32;
  EXPECT_EQ(Unlimited(), 0) << "FP64 holds the terms of fp32";
  case_.dtype = DType::kF64;
  request_.allowance = nullptr;
  EXPECT_EQ(Unlimited(), 0);
}

TEST_F(Unbounded, CountsRowsWhoseSquaresUnderflowWhateverGates) {
  case_.dtype = DType::kF32;
  case_.problem = LayerNormProblem{.eps = 0};
  allowance_[3] = allowance_[65536] = HUGE_VAL;
  allowance_[5] = NAN;
  reference_[3] = HUGE_VAL;
  for (const Gate gate : {Gate::kBound, Gate::kAllClose}) {
    request_.gate = gate;
    EXPECT_EQ(Unlimited(), 2);
  }
  case_.problem = LayerNormProblem{};
  EXPECT_EQ(Unlimited(), 0);
}

TEST_F(Unbounded, HandsOnWhatTheDeviceSays) {
  allowance_[3] = HUGE_VAL;
  for (int read = 0; read < 4; ++read) {
    device_.left = read;
    EXPECT_EQ(CountUnbounded(case_, device_, request_).status().code(),
              absl::StatusCode::kDataLoss);
  }
  device_.left = 1 << 30;
  device_.compares = false;
  EXPECT_EQ(CountUnbounded(case_, device_, request_).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace assay
