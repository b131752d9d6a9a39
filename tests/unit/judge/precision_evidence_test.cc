// What is asked of the device and of the operator before a precision is told: buffers, the residual
// pass, and samples for the matched filter only where they can say something.
#include "kernels/judge/precision_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/judge/narrowing.h"
#include "kernels/judge/pieces.h"
#include "kernels/judge/summation_orders.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/device_references.h"
#include "tests/unit/judge/forwarding_device.h"
#include "tests/unit/judge/products.h"
#include "tests/unit/judge/reading_fixture.h"
#include "tests/unit/ops/row_kernels.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kElements;
using ::testing::Pair;
using testing::Reading;
using ::testing::SizeIs;
using testing::TellingDevice;

// ---- buffers

class Deviations : public ::testing::Test {
 protected:
  Deviations() {
    model_.known = true;
    plan_.output.extents = Extents::Dense(2, 30, 50);
  }
  ReferenceBuffers Allocated() {
    device_.arena().Reset();
    EXPECT_TRUE(device_.arena().Allocate(64, /*guarded=*/true).ok());
    ReferenceBuffers to;
    to.value = &value_;
    status_ = AllocateDeviations(Case(), model_, plan_, device_, to);
    EXPECT_EQ(to.value, &value_);
    return to;
  }
  std::vector<std::int64_t> Sizes() {
    std::vector<std::int64_t> sizes;
    for (const Block& block : device_.arena().blocks().subspan(1)) {
      EXPECT_FALSE(block.guarded);
      sizes.push_back(block.bytes);
    }
    return sizes;
  }

  double value_ = 0;
  absl::Status status_;
  TellingDevice device_;
  ResidualModel model_;
  Plan plan_;
};

TEST_F(Deviations, HaveTheBuffersThatTheModelAsksFor) {
  ReferenceBuffers to = Allocated();
  EXPECT_THAT(Sizes(), ElementsAre(3000 * 4));
  EXPECT_EQ(to.deviation, device_.arena().blocks()[1].data);
  EXPECT_EQ(to.direction, nullptr);
  EXPECT_EQ(to.row_offset, nullptr);
  EXPECT_EQ(to.row_gain, nullptr);
  model_.direction = model_.rows = true;
  to = Allocated();
  EXPECT_THAT(Sizes(), ElementsAre(3000 * 4, 3000 * 4, 60 * 4, 60 * 4));
  const auto blocks = device_.arena().blocks();
  EXPECT_EQ(to.deviation, blocks[1].data);
  EXPECT_EQ(to.direction, blocks[2].data);
  EXPECT_EQ(to.row_offset, blocks[3].data);
  EXPECT_EQ(to.row_gain, blocks[4].data);
}

// A device may have no direction of an operator.
TEST_F(Deviations, HaveADirectionIfTheDeviceFillsIt) {
  model_.direction = true;
  device_.own_references = true;
  EXPECT_NE(Allocated().direction, nullptr);
  device_.directs = false;
  const ReferenceBuffers to = Allocated();
  EXPECT_NE(to.deviation, nullptr);
  EXPECT_EQ(to.direction, nullptr);
}

TEST_F(Deviations, AreNotAskedForIfNothingWillBeTold) {
  device_.tells = false;
  EXPECT_EQ(Allocated().deviation, nullptr);
  device_.tells = true;
  model_.known = false;
  EXPECT_EQ(Allocated().deviation, nullptr);
  model_.known = true;
  device_.own_references = true;
  EXPECT_NE(Allocated().deviation, nullptr);
  device_.fills = false;
  EXPECT_EQ(Allocated().deviation, nullptr);
  EXPECT_THAT(Sizes(), IsEmpty());
}

// The arena has 64 MiB: one buffer of 40 MB fits, and two do not.
TEST_F(Deviations, AreAllThereOrNone) {
  model_.direction = true;
  plan_.output.extents = Extents::Dense(1, 2500, 4000);
  EXPECT_EQ(Allocated().deviation, nullptr);
  EXPECT_THAT(Sizes(), IsEmpty()) << "what was taken is given back";
  EXPECT_TRUE(absl::IsResourceExhausted(status_)) << status_;
  model_.direction = false;
  EXPECT_NE(Allocated().deviation, nullptr);
  EXPECT_TRUE(status_.ok()) << status_;
}

// ---- the reading

TEST_F(Reading, IsNoneWithoutAModelOrDeviationsOrElements) {
  EXPECT_TRUE(Told()->precision.has_value());
  op_.model.known = false;
  EXPECT_FALSE(Told()->precision.has_value());
  op_.model.known = true;
  buffers_.deviation = nullptr;
  EXPECT_FALSE(Told()->precision.has_value());
  buffers_.deviation = &deviation_;
  device_.sums.count = 0;
  EXPECT_FALSE(Told()->precision.has_value());
  EXPECT_EQ(op_.asked, 0);
  device_.fault = absl::InternalError("the device is gone");
  EXPECT_EQ(Told().status().code(), absl::StatusCode::kInternal);
}

TEST_F(Reading, AsksForTheResidualsOfItsBuffers) {
  buffers_.direction = &direction_;
  buffers_.row_offset = &row_offset_;
  buffers_.row_gain = &row_gain_;
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(device_.asked.output.data, output_.data());
  EXPECT_EQ(device_.asked.reference, reference_.data());
  EXPECT_EQ(device_.asked.deviation, &deviation_);
  EXPECT_EQ(device_.asked.direction, &direction_);
  EXPECT_EQ(device_.asked.row_offset, &row_offset_);
  EXPECT_EQ(device_.asked.row_gain, &row_gain_);
}

// On random data of mean zero R shows each narrowing that the filter can name.
TEST_F(Reading, SamplesOnlyWhereTheFilterMaySaySomething) {
  SetRms(1);
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(op_.asked, 0);
  SetRms(1.01);
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(op_.asked, 1);
  SetRms(0.1);
  plan_.zero_mean_random = false;
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(op_.asked, 1);
  // Formats of 16 bits and less have no narrower one that shows.
  case_.dtype = DType::kBF16;
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(op_.asked, 0);
  SetRms(3);
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(op_.asked, 0);
  // Of a user's tensors the order of the terms is to be known.
  received_ = true;
  SetRms(0.1);
  plan_.zero_mean_random = true;
  SetProducts(testing::NormalData(), testing::NormalData(), 64);
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(op_.asked, 1);
  EXPECT_THAT(device_.reads, IsEmpty());
  case_.dtype = DType::kF32;
  ASSERT_TRUE(Told().ok());
  EXPECT_THAT(device_.reads, SizeIs(2));
}

TEST_F(Reading, SamplesAreThoseOfTheCasesSeed) {
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(op_.seed, 1u);
  EXPECT_EQ(op_.at_least, NarrowingSamples(4096));
  case_.seed = 77;
  ASSERT_TRUE(Told().ok());
  EXPECT_EQ(op_.seed, 77u);
}

// Elements of the output and of the reference that lie at most 4,096 apart are read together.
TEST_F(Reading, ReadsNeighboursTogether) {
  SetProducts(testing::NormalData(), testing::NormalData(), 64);
  for (std::int64_t i = 0; i < 64; ++i) op_.at[static_cast<std::size_t>(i)] = 100 + 3 * i;
  op_.at[61] = 20'000;
  op_.at[62] = 20'000 + 4096;
  op_.at[63] = 20'000 + 2 * 4096 + 1;
  ASSERT_TRUE(Told().ok());
  ASSERT_GE(device_.reads.size(), 6u);
  device_.reads.resize(6);  // what follows is the whole reference, to look at the right output
  EXPECT_THAT(device_.reads,
              ElementsAre(Pair(100, 3 * 60 + 1), Pair(20'000, 4097), Pair(20'000 + 8193, 1),
                          Pair(100, 3 * 60 + 1), Pair(20'000, 4097), Pair(20'000 + 8193, 1)));
  for (int read = 0; read < 6; ++read) {
    device_.left = read;
    EXPECT_EQ(Told().status().code(), absl::StatusCode::kDataLoss) << read;
  }
}

// Only the sampled elements are numbers of bf16.
TEST_F(Reading, AnOutputOfANarrowerFormatIsNamed) {
  SetProducts(testing::NormalData(), testing::NormalData(), 64);
  for (std::int64_t i = 0; i < 64; ++i) op_.at[static_cast<std::size_t>(i)] = 10 + 1500 * i;
  EXPECT_EQ(LooksLike(), "");
  for (const std::int64_t i : op_.at) {
    float& o = output_[static_cast<std::size_t>(i)];
    o = static_cast<float>(Quantise(static_cast<double>(o), DType::kBF16));
  }
  EXPECT_THAT(LooksLike(), ::testing::HasSubstr("bf16"));
  EXPECT_EQ(Said(), Verdict::kFailed);
  op_.products.reset();
  EXPECT_EQ(LooksLike(), "") << "without products there is no sample";
}

TEST_F(Reading, NarrowerInputsAreNamed) {
  SetProducts(testing::NormalData(), testing::NormalData(), 256);
  FillSums([](double v) { return v; });
  EXPECT_EQ(LooksLike(), "");
  FillSums([](double v) { return Quantise(v, DType::kTF32); });
  EXPECT_THAT(LooksLike(), ::testing::StartsWith("TF32"));
}

// What the output shows comes before what the inputs may explain.
TEST_F(Reading, ANarrowOutputIsNamedBeforeNarrowInputs) {
  SetProducts(testing::NormalData(), testing::NormalData(), 256);
  FillSums([](double v) { return Quantise(v, DType::kBF16); });
  EXPECT_THAT(LooksLike(), ::testing::StartsWith("bf16 inputs"));
  for (float& o : output_) o = static_cast<float>(Quantise(static_cast<double>(o), DType::kBF16));
  EXPECT_THAT(LooksLike(), ::testing::HasSubstr("output"));
}

// Generated data fail beyond the limit, a user's beyond twice the limit of every usual order.
TEST_F(Reading, AUsersTensorsHaveTheGateOfTheirOrders) {
  EXPECT_EQ(Said(), Verdict::kFailed);
  received_ = true;
  EXPECT_EQ(Said(), Verdict::kInconclusive) << "3 is not twice 2";
  SetRms(2.01);
  EXPECT_EQ(Said(), Verdict::kInconclusive) << "without products no order is known to explain it";
  SetRms(100);
  EXPECT_EQ(Said(), Verdict::kInconclusive) << "however large it is";
  for (const std::int64_t terms : {1, 2}) {
    plan_.accumulations = terms;
    EXPECT_EQ(Said(), terms == 1 ? Verdict::kFailed : Verdict::kInconclusive)
        << "one term has one order";
  }
  op_.model.rows = true;
  device_.sums.rows = 100;
  device_.sums.gain_squared = 1e12;
  EXPECT_EQ(Said(), Verdict::kFailed) << "what a row shares has no order";
  op_.model.rows = false;
  plan_.accumulations = 4096;
  SetProducts(testing::AlternatingData(), testing::PositiveData(), 4096);
  const double factor = EmulateOrders(*op_.products, DType::kF32).factor;
  ASSERT_GT(factor, 1.5);
  SetRms(2 * factor * 0.99);
  EXPECT_EQ(Said(), Verdict::kPassed);
  SetRms(2 * factor * 1.01);
  EXPECT_EQ(Said(), Verdict::kInconclusive);
  SetRms(4 * factor * 1.01);
  EXPECT_EQ(Said(), Verdict::kFailed);
}

// A library may have computed a user's tensors with Winograd's transforms, and nobody declares it.
TEST_F(Reading, AUsersTensorsMayComeFromATransform) {
  op_.op_traits.transforms_divide = true;
  const auto passes = [&](double rms) {
    SetRms(rms);
    return Said() == Verdict::kPassed;
  };
  EXPECT_FALSE(passes(3)) << "a kernel of ours declares it";
  received_ = true;
  EXPECT_TRUE(passes(7.9));
  EXPECT_FALSE(passes(8.4));
  op_.op_traits.transforms_divide = false;
  EXPECT_FALSE(passes(7.9));
}

// What is found of the rounded reference, too, says nothing of the kernel: for generated data, and
// for tensors that a user sent.
TEST_F(Reading, WhatTheRightOutputShowsIsNotTheKernels) {
  for (const bool received : {false, true}) {
    received_ = received;
    device_.of_right.reset();
    const Verdict alone = Said();
    EXPECT_EQ(alone, received ? Verdict::kInconclusive : Verdict::kFailed);
    device_.of_right = device_.sums;
    const std::size_t blocks = device_.arena().blocks().size();
    EXPECT_EQ(Said(), Verdict::kPassed) << received;
    EXPECT_EQ(device_.arena().blocks().size(), blocks) << "the right output is gone again";
    EXPECT_TRUE(Told()->precision.has_value()) << "what was measured stays";
    device_.of_right->sum_squared = 0.25 * static_cast<double>(kElements);
    EXPECT_EQ(Said(), alone) << received;
    EXPECT_EQ(device_.passes, 2);
  }
}

// ---- rows

// Keeps the sums of the first output that it measures.
class MeasuringDevice : public testing::ForwardingDevice {
 public:
  std::optional<ResidualSums> measured;

  bool tells_precision() const override { return true; }
  absl::StatusOr<ResidualSums> Residuals(const ResidualRequest& request) override {
    absl::StatusOr<ResidualSums> sums = cpu_->Residuals(request);
    if (sums.ok() && !measured) measured = *sums;
    return sums;
  }
  absl::Status FromHost(const void* from, std::int64_t bytes, void* to) override {
    return cpu_->FromHost(from, bytes, to);
  }
};

// Rows of normal numbers behind padding, which a user sent with what a kernel made of them.
class PaddedRows : public ::testing::Test, private HostInputs {
 protected:
  static constexpr std::int64_t kRows = 64, kCols = 4000, kPadding = 3600;
  using Kernel = std::function<std::vector<float>(const std::vector<float>&)>;

  PaddedRows() : x_(kRows * kCols) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const bool padding = static_cast<std::int64_t>(i) % kCols < kPadding;
      x_[i] = padding ? 0.3F : static_cast<float>(testing::Normal(random));
    }
  }
  std::vector<float> x_;
  bool received_ = true;

  // What a kernel gives that takes each row from its end.
  static Kernel Backwards(const Kernel& kernel) {
    return [kernel](const std::vector<float>& x) {
      const std::vector<float> y = kernel({x.rbegin(), x.rend()});
      return std::vector<float>(y.rbegin(), y.rend());
    };
  }

  // The verdicts without the factors of the rows' orders, and as they are told.
  struct Verdicts {
    Verdict strict, told;

    bool operator==(const Verdicts&) const = default;
  };
  Verdicts Of(const Problem& problem, const Kernel& kernel) {
    Case c;
    c.problem = problem;
    c.dtype = DType::kF32;
    const Op& op = OpOf(c);
    const Plan plan = op.MakePlan(c).value();
    const auto count = static_cast<std::size_t>(kRows * kCols);
    std::vector<double> value(count), allowance(count);
    std::vector<float> deviation(count), offset(kRows), gain(kRows), y;
    ReferenceBuffers reference;
    reference.value = value.data();
    reference.allowance = allowance.data();
    reference.deviation = deviation.data();
    reference.row_offset = offset.data();
    reference.row_gain = gain.data();
    const std::vector<TensorView> inputs = {{x_.data(), DType::kF32, plan.inputs[0].extents}};
    EXPECT_TRUE(op.ReferenceHere(c, plan, inputs, reference).ok());
    for (auto row = x_.begin(); row != x_.end(); row += kCols) {
      const std::vector<float> of_row = kernel({row, row + kCols});
      y.insert(y.end(), of_row.begin(), of_row.end());
    }
    MeasuringDevice device;
    const absl::StatusOr<PrecisionReading> told =
        TellPrecision({.c = c,
                       .op = op,
                       .plan = plan,
                       .device = device,
                       .output = TensorView{y.data(), DType::kF32, plan.output.extents},
                       .reference = reference,
                       .inputs = *this,
                       .received = received_});
    const PrecisionReading strict =
        ReadPrecision(op.Residuals(c, plan), plan, *device.measured, GateOfReceived(c, 1));
    return {VerdictOf(strict), told.ok() ? VerdictOf(*told) : Verdict::kError};
  }

 private:
  static Verdict VerdictOf(const PrecisionReading& reading) {
    return reading.findings.empty() ? Verdict::kPassed : reading.findings[0].verdict;
  }
  void Read(int, std::int64_t begin, std::int64_t count, double* out) const override {
    std::copy_n(x_.begin() + begin, count, out);
  }
};

constexpr Verdict kF = Verdict::kFailed, kI = Verdict::kInconclusive;

TEST_F(PaddedRows, OfARightNormAreDoubtedAndOfAWrongOneFail) {
  for (const bool rms : {false, true}) {
    const LayerNormProblem problem{.rows = kRows, .cols = kCols, .rms = rms};
    const auto norm = [&](float eps, float gain) {
      return Backwards([=](const std::vector<float>& x) {
        std::vector<float> y = NormOf(NormKernel(), x, eps, rms);
        for (float& v : y) v *= gain;
        return y;
      });
    };
    EXPECT_EQ(Of(problem, norm(1e-5F, 1)), (Verdicts{kF, kI})) << rms;
    EXPECT_EQ(Of(problem, norm(1e-3F, 1)), (Verdicts{kF, kF})) << rms;
    EXPECT_EQ(Of(problem, norm(1e-5F, 1.01F)), (Verdicts{kF, kF})) << rms;
  }
}

// Rows that the daemon drew have no order that could explain anything.
TEST_F(PaddedRows, ExcuseNothingThatWasDrawn) {
  received_ = false;
  const Kernel right =
      Backwards([](const std::vector<float>& x) { return NormOf(NormKernel(), x, 1e-5F, false); });
  EXPECT_EQ(Of(LayerNormProblem{.rows = kRows, .cols = kCols}, right), (Verdicts{kF, kF}));
}

// Constant rows have no scale that a layer norm could have wrong, and excuse none.
TEST_F(PaddedRows, ThatAreConstantExcuseNothing) {
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < x_.size(); ++i) {
    x_[i] = i / kCols % 2 == 0 ? 0.1F : static_cast<float>(testing::Normal(random));
  }
  const LayerNormProblem problem{.rows = kRows, .cols = kCols};
  for (const float eps : {1e-5F, 5e-5F}) {
    const Verdict said = eps == 1e-5F ? Verdict::kPassed : kF;
    EXPECT_EQ(Of(problem,
                 [&](const std::vector<float>& x) { return NormOf(NormKernel(), x, eps, false); }),
              (Verdicts{said, said}));
  }
}

// Exponentials of padding are 1.3 times what is lost of a sum of 1. The usual orders take them
// first, when the sum is small.
TEST_F(PaddedRows, OfARightSoftmaxAreDoubtedAndOfAWrongOneFail) {
  for (std::size_t i = 0; i < x_.size(); ++i) {
    const std::size_t left = kCols - i % kCols;
    x_[i] = left == 1 ? 0 : left < 10 ? -5 - std::abs(x_[i]) : std::log(1.3F * 0x1p-24F);
  }
  const SoftmaxProblem problem{.rows = kRows, .cols = kCols};
  const auto softmax = [&](float gain) {
    return Backwards([=](const std::vector<float>& x) {
      std::vector<float> y = SoftmaxOf(SoftmaxKernel(), x);
      for (float& v : y) v *= gain;
      return y;
    });
  };
  EXPECT_EQ(Of(problem, softmax(1)), (Verdicts{kF, kI}));
  EXPECT_EQ(Of(problem, softmax(1.05F)), (Verdicts{kF, kF}));
}

}  // namespace
}  // namespace assay
