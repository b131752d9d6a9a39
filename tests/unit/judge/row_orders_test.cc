// The order of a row's sums explains errors on data that repeat, and none on random data.
#include "kernels/judge/row_orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

constexpr std::int64_t kRows = 40, kCols = 1000;

class Rows : public HostInputs {
 public:
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    EXPECT_EQ(operand, 0);
    std::copy_n(x.begin() + begin, count, out);
  }
  std::vector<double> x;
};

class RowOrders : public ::testing::Test {
 protected:
  // Normal numbers in the columns from `first` on, and `padding` before.
  void Fill(std::int64_t first, double padding) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> draw;
    inputs_.x.clear();
    for (std::int64_t i = 0; i < kRows * kCols; ++i) {
      inputs_.x.push_back(i % kCols < first ? padding : static_cast<double>(draw(random)));
    }
  }
  void MakeSoftmax() {
    reference_ = inputs_.x;
    for (std::int64_t row = 0; row < kRows; ++row) {
      double* r = reference_.data() + row * kCols;
      double sum = 0;
      for (std::int64_t i = 0; i < kCols; ++i) sum += r[i] = std::exp(r[i]);
      for (std::int64_t i = 0; i < kCols; ++i) r[i] /= sum;
    }
  }
  absl::StatusOr<double> Factor(const Problem& problem) {
    Case c;
    c.problem = problem;
    c.dtype = DType::kF32;
    Plan plan;
    plan.output.dtype = DType::kF32;
    plan.output.extents = Extents::Dense(1, kRows, kCols);
    ReferenceBuffers reference;
    reference.value = reference_.data();
    return RowOrderFactor({.c = c,
                           .op = OpOf(c),
                           .plan = plan,
                           .device = device_,
                           .output = TensorView(),
                           .reference = reference,
                           .inputs = inputs_,
                           .received = true});
  }

  Rows inputs_;
  std::vector<double> reference_;
  testing::ForwardingDevice device_;
};

TEST_F(RowOrders, ExplainNothingOfRandomRows) {
  Fill(0, 0);
  MakeSoftmax();
  EXPECT_LT(Factor(LayerNormProblem{}).value(), 1.3);
  EXPECT_LT(Factor(LayerNormProblem{.rms = true}).value(), 1.3);
  EXPECT_LT(Factor(SoftmaxProblem{}).value(), 1.3);
}

// From the end to the beginning, the padding comes last, and all of it is rounded in one direction.
TEST_F(RowOrders, ExplainErrorsOfPaddedRows) {
  Fill(900, 0.3);
  MakeSoftmax();
  EXPECT_GT(Factor(LayerNormProblem{}).value(), 4);
  EXPECT_GT(Factor(LayerNormProblem{.rms = true}).value(), 4);
  EXPECT_GT(Factor(SoftmaxProblem{}).value(), 4);
}

// The squares of a norm are those of distances from the mean: of zeros they repeat, too.
TEST_F(RowOrders, ExplainErrorsOfRowsPaddedWithZeros) {
  Fill(900, 0);
  EXPECT_GT(Factor(LayerNormProblem{}).value(), 3);
  EXPECT_LT(Factor(LayerNormProblem{.rms = true}).value(), 1.3) << "zeros round nothing";
}

TEST_F(RowOrders, LeaveOutRowsThatAreNotFinite) {
  Fill(0, 0);
  for (std::int64_t i = 0; i < kCols; ++i) {
    inputs_.x[static_cast<std::size_t>(i)] = std::numeric_limits<double>::quiet_NaN();
  }
  MakeSoftmax();
  EXPECT_LT(Factor(LayerNormProblem{}).value(), 1.3);
  EXPECT_LT(Factor(SoftmaxProblem{}).value(), 1.3);
}

}  // namespace
}  // namespace assay
