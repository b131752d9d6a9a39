// What the recheck asks of a device, element by element, and what it makes of the answer. The
// operator and the device are made up, so that each figure is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/judge/recheck.h"
#include "kernels/numerics/bound.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::int64_t kCount = 2000;

// Element i is i / 8, with an allowance of i / 1024. If it has several right values, it takes the
// output's and adds 1000.
class MadeUpOp : public Op {
 public:
  std::vector<std::int64_t> sampled = {3, 900};
  bool several = false;
  double wider = 1;       // factor of the allowances
  std::int64_t nan = -1;  // the element that is NaN
  mutable std::int64_t asked = 0;
  mutable std::uint64_t seed = 0;
  mutable double read = 0;  // of operand 2

  std::string_view name() const override { return "made-up"; }
  absl::StatusOr<Plan> MakePlan(const Case&) const override {
    return absl::UnimplementedError("not asked for");
  }
  absl::Status ReferenceHere(const Case&, const Plan&, std::span<const TensorView>,
                             ReferenceBuffers&) const override {
    return absl::UnimplementedError("not asked for");
  }
  bool SeveralRight(const Case&) const override { return several; }
  std::vector<std::int64_t> Samples(const Case&, const Plan&, std::uint64_t s,
                                    std::int64_t at_least) const override {
    asked = at_least;
    seed = s;
    return sampled;
  }
  void ReferenceAt(const Case&, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    inputs.Read(2, 5, 1, &read);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t at = indices[i];
      value[i] = several ? 1000 + inputs.Output(at).value_or(-1) : static_cast<double>(at) / 8;
      if (at == nan) value[i] = std::numeric_limits<double>::quiet_NaN();
      if (!plan.exact) allowance[i] = wider * static_cast<double>(at) / 1024;
    }
    EXPECT_FALSE(inputs.Output(kCount + 1).has_value()) << "an element that nobody asked for";
    EXPECT_FALSE(inputs.Output(1).has_value()) << "it lies between others";
  }
};

class FiveOfEach : public HostInputs {
 public:
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = 100 * operand + static_cast<double>(begin + i);
  }
};

// Keeps what it is asked and which elements are read, and answers as a test says.
class AskedDevice : public testing::ForwardingDevice {
 public:
  RecheckRequest request;
  std::vector<HostElement> elements;
  RecheckFindings answer;
  std::map<std::int64_t, RecheckFindings> of_one;  // by index: for a request of one element
  int requests = 0;
  bool lost = false;                                         // from the second request on
  std::vector<std::pair<std::int64_t, std::int64_t>> reads;  // begin, count

  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    reads.emplace_back(b, n);
    return ForwardingDevice::ToHost(t, b, n, d);
  }
  absl::StatusOr<RecheckFindings> Recheck(const RecheckRequest& r) override {
    ++requests;
    if (lost && requests > 1) return absl::InternalError("lost");
    request = r;
    if (r.elements.size() == 1 && !of_one.empty()) {
      const auto one = of_one.find(r.elements[0].index);
      return one == of_one.end() ? RecheckFindings{} : one->second;
    }
    elements.assign(r.elements.begin(), r.elements.end());
    return answer;
  }
};

class RecheckRequests : public ::testing::Test {
 protected:
  RecheckRequests() : values_(kCount) {
    std::iota(values_.begin(), values_.end(), 0.0F);
    plan_.output.dtype = DType::kF32;
    plan_.output.dims = {1, 40, 50};
    plan_.proven_factor = 3;
    output_ = {values_.data(), DType::kF32, Extents::Dense(1, 40, 50)};
    case_.seed = 7;
  }

  Recheck Run(std::int64_t samples = 2) {
    absl::StatusOr<Recheck> result =
        RecheckOnHost(case_, op_, plan_, device_, output_, &reference_, &allowance_, FiveOfEach(),
                      compare_, flushes_, samples);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(Recheck{});
  }

  std::vector<std::int64_t> Indices() const {
    std::vector<std::int64_t> at;
    for (const HostElement& e : device_.elements) at.push_back(e.index);
    return at;
  }

  std::vector<float> values_;
  double reference_ = 0, allowance_ = 0;
  Case case_;
  Plan plan_;
  TensorView output_;
  MadeUpOp op_;
  AskedDevice device_;
  CompareResult compare_;
  bool flushes_ = false;
};

// Element i is i / 8, with an allowance of i / 1024: a factor makes it as large as the element.
TEST_F(RecheckRequests, SayHowMuchOfTheResultsTheirBoundsProve) {
  op_.sampled = {0, 100, 300};  // 12.5 and 37.5, 16.7 on average
  EXPECT_EQ(Run().unproven, 0);
  op_.wider = 128;  // the allowance is the element
  EXPECT_DOUBLE_EQ(Run().unproven, 0.75)
      << "the smaller one is below the mean, and so is its bound";
  EXPECT_EQ(Run().unbounded, 0);
  op_.wider = 127;
  EXPECT_EQ(Run().unproven, 0);
  op_.wider = 200;
  EXPECT_DOUBLE_EQ(Run().unproven, 1);
  op_.sampled = {4, 6};  // 0.5 and 0.75
  EXPECT_DOUBLE_EQ(Run().unproven, 1);
  op_.sampled = {0, 100, 300};
  op_.wider = HUGE_VAL;  // infinite but for the first, which has 0 · infinity
  EXPECT_EQ(Run().unbounded, 3);
  plan_.exact = true;
  EXPECT_EQ(Run().unbounded, 0);
}

TEST_F(RecheckRequests, CountNoElementThatItsClassJudges) {
  op_.sampled = {0, 100, 300};
  op_.nan = 100;
  op_.wider = HUGE_VAL;
  EXPECT_EQ(Run().unbounded, 2);
  op_.wider = 200;
  EXPECT_DOUBLE_EQ(Run().unproven, 1) << "the mean is that of the numbers";
  op_.sampled = {0};
  EXPECT_EQ(Run().unproven, 0) << "of zeros, zero is unproven";
}

// The device names the elements it found worst: these above all are recomputed. Each once, in
// ascending order, whatever the device's order.
TEST_F(RecheckRequests, HoldTheWorstElementAndTheMismatchesBesideTheSamples) {
  EXPECT_EQ(Run().elements, 2);
  EXPECT_THAT(Indices(), ElementsAre(3, 900));
  compare_.worst.index = 1500;
  Run();
  EXPECT_THAT(Indices(), ElementsAre(3, 900, 1500));
  compare_.worst.index = 0;
  Run();
  EXPECT_THAT(Indices(), ElementsAre(0, 3, 900)) << "the first element may be the worst";
  compare_.samples.resize(3);
  compare_.samples[0].index = 700;
  compare_.samples[1].index = 900;
  compare_.samples[2].index = 2;
  EXPECT_EQ(Run().elements, 5);
  EXPECT_THAT(Indices(), ElementsAre(0, 2, 3, 700, 900));
}

TEST_F(RecheckRequests, AskForAsManySamplesAsSaidAndAsThereAre) {
  Run(1024);
  EXPECT_EQ(op_.asked, 1024);
  EXPECT_EQ(op_.seed, 7u);
  Run(5000);
  EXPECT_EQ(op_.asked, kCount);
  case_.seed.reset();
  Run();
  EXPECT_EQ(op_.seed, 1u) << "the default of a case";
  EXPECT_EQ(op_.read, 205) << "the inputs are those of the case";
}

// The bound is T of the host's own reference and allowance. The device's allowance may be larger by
// 1 %, and no more.
TEST_F(RecheckRequests, BoundTheDeviceByTheHostsOwnFigures) {
  Run();
  const HostElement e = device_.elements[1];
  EXPECT_EQ(e.value, 112.5);
  EXPECT_EQ(e.rounded, 112.5);
  const OutputRounding rounding = OutputRoundingOf(DType::kF32);
  EXPECT_EQ(e.bound, TBound(rounding, 112.5, 3 * 900.0 / 1024));
  EXPECT_EQ(e.reference_bound, e.bound);
  EXPECT_GE(e.most_allowance, 1.0099 * 900 / 1024);
  EXPECT_LE(e.most_allowance, 1.0101 * 900 / 1024);
  EXPECT_FALSE(e.may_overflow);
  flushes_ = true;
  Run();
  EXPECT_EQ(device_.elements[1].bound,
            TBound(OutputRoundingOf(DType::kF32, true), 112.5, 3 * 900.0 / 1024));
  plan_.exact = true;
  Run();
  EXPECT_EQ(device_.elements[1].bound, 0);
  EXPECT_EQ(device_.elements[1].reference_bound, 0);
  EXPECT_EQ(device_.elements[1].most_allowance, 1e-300) << "exact results have no allowance";
}

TEST_F(RecheckRequests, RoundTheReferenceToTheOutputsFormat) {
  op_.sampled = {1025};  // 128.125 has 11 bits
  plan_.output.dtype = DType::kBF16;
  Run();
  EXPECT_EQ(device_.elements[0].value, 128.125);
  EXPECT_EQ(device_.elements[0].rounded, 128);
  // Rounding alone makes it exact, so the device's value may come from a function of its own.
  plan_.exact = true;
  Run();
  EXPECT_EQ(device_.elements[0].bound, 0);
  EXPECT_EQ(device_.elements[0].reference_bound, 0x1p-40 * 128.125);
}

// 448 is the largest number of the format. An exact result of 448 may be that or an overflow.
TEST_F(RecheckRequests, KnowWhereAnElementMayOverflow) {
  Run();
  EXPECT_FALSE(device_.elements[0].overflows_to_nan) << "fp32 has infinities";
  plan_.output.dtype = DType::kE4M3FN;
  plan_.exact = true;
  op_.sampled = {8 * 448 - 1, 8 * 448, 8 * 449};
  Run();
  EXPECT_TRUE(device_.elements[0].overflows_to_nan);
  EXPECT_FALSE(device_.elements[0].may_overflow);
  EXPECT_TRUE(device_.elements[1].may_overflow) << "it reaches the largest number";
  EXPECT_TRUE(device_.elements[2].may_overflow);
  // Inexact: T = 2^-4·440 + 2^-10 + (1 + 2^-4)·3·E is more than the 8 that are missing.
  plan_.exact = false;
  op_.sampled = {8 * 440};
  Run();
  EXPECT_TRUE(device_.elements[0].may_overflow);
  op_.sampled = {8 * 100};
  Run();
  EXPECT_FALSE(device_.elements[0].may_overflow);
}

// An output that was found wrong is the kernel's fault: only one that was accepted is held against
// the host.
TEST_F(RecheckRequests, LeaveOutAnOutputThatWasFoundWrong) {
  Run();
  EXPECT_EQ(device_.request.output.data, values_.data());
  EXPECT_EQ(device_.request.reference, &reference_);
  EXPECT_EQ(device_.request.allowance, &allowance_);
  EXPECT_FALSE(device_.request.exact);
  compare_.beyond_proven = 1;
  Run();
  EXPECT_EQ(device_.request.output.data, nullptr);
  compare_.beyond_proven = 0;
  compare_.class_mismatches = 1;
  Run();
  EXPECT_EQ(device_.request.output.data, nullptr);
  plan_.exact = true;
  Run();
  EXPECT_TRUE(device_.request.exact);
}

// The output's elements are read in runs of neighbours. Each element must get its own.
TEST_F(RecheckRequests, GiveAReferenceWithSeveralRightValuesTheOutput) {
  op_.several = true;
  op_.sampled = {0, 4, 5, 6, 8, 9, 1000, 1998, 1999};
  Run();
  EXPECT_EQ(op_.read, 205) << "the inputs are those of the case";
  EXPECT_THAT(device_.reads,
              ElementsAre(Pair(0, 1), Pair(4, 3), Pair(8, 2), Pair(1000, 1), Pair(1998, 2)));
  ASSERT_EQ(device_.elements.size(), op_.sampled.size());
  for (std::size_t i = 0; i < op_.sampled.size(); ++i) {
    EXPECT_EQ(device_.elements[i].value, 1000.0 + static_cast<double>(op_.sampled[i]));
  }
}

TEST_F(RecheckRequests, TellWhichElementDisagreesAndHowMany) {
  EXPECT_EQ(Run().fault, "");
  device_.answer = {.disagreements = 1, .first = 1, .what = Disagreement::kAllowance, .got = 0.25};
  const std::string one = Run().fault;
  EXPECT_THAT(one, HasSubstr("at [0,18,0]: the device's error allowance is 0.25"));
  EXPECT_THAT(one, ::testing::Not(HasSubstr("sampled elements")));
  device_.answer.disagreements = 2;
  EXPECT_THAT(Run().fault, HasSubstr(" (2 of 2 sampled elements)"));
}

// The device's reference may come from a function of its own, also where an output must be equal.
TEST_F(RecheckRequests, TellTheBoundOfWhatDisagrees) {
  op_.sampled = {1025};
  plan_.output.dtype = DType::kBF16;
  plan_.exact = true;
  device_.answer = {.disagreements = 1, .first = 0, .what = Disagreement::kReference, .got = 7};
  EXPECT_THAT(Run().fault, HasSubstr("128.125 ± 1.17e-10"));
  device_.answer.what = Disagreement::kOutput;
  EXPECT_THAT(Run().fault, HasSubstr("128.125 ± 0"));
}

// ---- sums that overflow FP64

constexpr double kInf = std::numeric_limits<double>::infinity();

// Elements from 512 on have magnitudes that may overflow: element i has an allowance of i / 1024.
class Overflows : public RecheckRequests {
 protected:
  Overflows() {
    case_.problem = GemmProblem{};
    case_.dtype = plan_.output.dtype = DType::kF64;
    output_.dtype = DType::kF64;
    output_.data = wide_.data();
    plan_.largest_intermediate = kInf;
    plan_.overflow_allowance = 0.5;
    op_.sampled = {3, 511, 512, 600, 700};
  }

  static RecheckFindings Said(std::int64_t disagreements, std::int64_t first, Disagreement what,
                              double got) {
    return {.disagreements = disagreements, .first = first, .what = what, .got = got};
  }
  // Whether the disagreement is excused, and with the whole message.
  bool Excused() {
    const Recheck r = Run();
    EXPECT_NE(r.fault.empty(), r.excuse.empty());
    if (r.fault.empty()) {
      EXPECT_THAT(r.excuse, HasSubstr("host and device disagree at [0,"));
      EXPECT_THAT(r.excuse, HasSubstr("; sums of these inputs may overflow FP64"));
    }
    return r.fault.empty();
  }

  std::vector<double> wide_ = std::vector<double>(kCount);
};

TEST_F(Overflows, ExcuseAnInfinityBesideANumber) {
  for (const double got : {kInf, -kInf, std::numeric_limits<double>::quiet_NaN()}) {
    device_.answer = Said(1, 2, Disagreement::kReference, got);
    EXPECT_TRUE(Excused()) << got;
    EXPECT_EQ(device_.requests, 1) << "there is no other";
    device_.requests = 0;
  }
  op_.nan = 512;
  device_.answer = Said(1, 2, Disagreement::kReference, 64);
  EXPECT_TRUE(Excused()) << "the host's reference is not finite";
  op_.nan = -1;
  EXPECT_FALSE(Excused()) << "two numbers";
  device_.answer.what = Disagreement::kOutput;
  device_.answer.got = kInf;
  EXPECT_FALSE(Excused()) << "the references agree";
}

TEST_F(Overflows, ExcuseNoElementThatCannotOverflow) {
  device_.answer = Said(1, 1, Disagreement::kReference, kInf);
  EXPECT_FALSE(Excused()) << "its allowance says so";
  device_.answer.first = 2;
  EXPECT_TRUE(Excused());
  plan_.largest_intermediate = 1e300;
  EXPECT_FALSE(Excused()) << "no sum of these inputs overflows";
  plan_.largest_intermediate = kInf;
  case_.dtype = DType::kF32;
  EXPECT_FALSE(Excused()) << "FP64 holds sums of fp32";
}

TEST_F(Overflows, ExcuseAnAllowanceThatIsInfinite) {
  device_.answer = Said(1, 2, Disagreement::kAllowance, kInf);
  EXPECT_TRUE(Excused());
  device_.answer.got = 1e300;
  EXPECT_FALSE(Excused());
  device_.answer.got = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Excused());
}

// A rectified -Inf is 0 and has an allowance of 0, as element 0 has here.
TEST_F(Overflows, ExcuseTheZeroThatAnInfinityBecomes) {
  op_.sampled = {0, 511, 512};
  for (const bool vanishes : {false, true}) {
    case_.problem = GemmProblem{.activation = vanishes ? "relu" : "none"};
    device_.answer = Said(1, 0, Disagreement::kReference, 64);
    EXPECT_EQ(Excused(), vanishes) << "the host's";
    device_.answer.what = Disagreement::kAllowance;
    EXPECT_EQ(Excused(), vanishes);
    device_.answer = Said(1, 2, Disagreement::kReference, 0);
    EXPECT_EQ(Excused(), vanishes) << "the device's";
    device_.answer.got = 1;
    EXPECT_FALSE(Excused()) << "two numbers";
    device_.answer = Said(1, 1, Disagreement::kReference, 0);
    EXPECT_FALSE(Excused()) << "its allowance says that no sum overflows";
  }
  plan_.largest_intermediate = 1e300;
  device_.answer = Said(1, 0, Disagreement::kReference, 64);
  EXPECT_FALSE(Excused()) << "no sum of these inputs overflows";
}

// One that is excused must not hide another that is not.
TEST_F(Overflows, LookAtEveryDisagreement) {
  device_.answer = Said(3, 2, Disagreement::kReference, kInf);
  device_.of_one[600] = Said(1, 0, Disagreement::kReference, -kInf);
  device_.of_one[700] = Said(1, 0, Disagreement::kReference, kInf);
  EXPECT_TRUE(Excused());
  EXPECT_THAT(Run().excuse, HasSubstr("at [0,10,12]: the device's reference is inf"));
  EXPECT_THAT(Run().excuse, HasSubstr("(3 of 5 sampled elements)"));
  device_.of_one[700].got = 88;
  EXPECT_FALSE(Excused());
  EXPECT_THAT(Run().fault, HasSubstr("at [0,14,0]: the device's reference is 88"));
  EXPECT_THAT(Run().fault, HasSubstr("(3 of 5 sampled elements)"));
  device_.of_one[600] = Said(1, 0, Disagreement::kOutput, 7);
  EXPECT_THAT(Run().fault, HasSubstr("at [0,12,0]: the device accepted an output of 7"));
  EXPECT_THAT(Run().fault, ::testing::Not(HasSubstr("FP64")));
}

TEST_F(Overflows, AskNoMoreThanThereIsToFind) {
  device_.answer = Said(2, 2, Disagreement::kReference, kInf);
  device_.of_one[600] = Said(1, 0, Disagreement::kReference, kInf);
  EXPECT_TRUE(Excused());
  EXPECT_EQ(device_.requests, 2);
  device_.requests = 0;
  device_.of_one = {{3, Said(1, 0, Disagreement::kOutput, 7)}};
  EXPECT_TRUE(Excused()) << "a device that finds fewer in the end";
  EXPECT_EQ(device_.requests, 3);
  device_.requests = 0;
  device_.lost = true;
  EXPECT_FALSE(RecheckOnHost(case_, op_, plan_, device_, output_, &reference_, &allowance_,
                             FiveOfEach(), compare_, flushes_, 2)
                   .ok());
}

}  // namespace
}  // namespace assay
