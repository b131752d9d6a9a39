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

class Rows : public HostInputs {
 public:
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    EXPECT_EQ(operand, 0);
    ++read;
    std::copy_n(x.begin() + begin, count, out);
  }
  std::vector<double> x;
  mutable int read = 0;
};

class RowOrdersOf : public ::testing::Test {
 protected:
  // Normal numbers in the columns from `first` on, and `padding` before.
  void Fill(std::int64_t first, double padding) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> draw;
    inputs_.x.clear();
    for (std::int64_t i = 0; i < rows_ * cols_; ++i) {
      inputs_.x.push_back(i % cols_ < first ? padding : static_cast<double>(draw(random)));
    }
  }
  void MakeSoftmax() {
    reference_ = inputs_.x;
    for (std::int64_t row = 0; row < rows_; ++row) {
      double* r = reference_.data() + row * cols_;
      double sum = 0;
      for (std::int64_t i = 0; i < cols_; ++i) sum += r[i] = std::exp(r[i]);
      for (std::int64_t i = 0; i < cols_; ++i) r[i] /= sum;
    }
  }
  RowOrders Orders(const Problem& problem) {
    Case c;
    c.problem = problem;
    c.dtype = DType::kF32;
    Plan plan;
    plan.output.dtype = DType::kF32;
    plan.output.extents = Extents::Dense(1, rows_, cols_);
    ReferenceBuffers reference;
    reference.value = reference_.data();
    return EmulateRowOrders({.c = c,
                             .op = OpOf(c),
                             .plan = plan,
                             .device = device_,
                             .output = TensorView(),
                             .reference = reference,
                             .inputs = inputs_,
                             .received = true})
        .value();
  }

  std::int64_t rows_ = 40, cols_ = 1000;
  Rows inputs_;
  std::vector<double> reference_;
  testing::ForwardingDevice device_;
};

const LayerNormProblem kRms{.rms = true};

TEST_F(RowOrdersOf, RandomRowsExplainNothing) {
  Fill(0, 0);
  MakeSoftmax();
  for (const Problem& problem :
       {Problem(LayerNormProblem{}), Problem(kRms), Problem(SoftmaxProblem{})}) {
    EXPECT_LT(Orders(problem).offset, 1.3);
    EXPECT_LT(Orders(problem).gain, 1.3);
  }
}

// From the end to the beginning, the padding comes last, and all of it is rounded in one direction.
TEST_F(RowOrdersOf, PaddedRowsExplainErrors) {
  Fill(900, 0.3);
  MakeSoftmax();
  EXPECT_GT(Orders(LayerNormProblem{}).offset, 4);
  EXPECT_GT(Orders(LayerNormProblem{}).gain, 3);
  EXPECT_GT(Orders(kRms).gain, 4);
  EXPECT_EQ(Orders(kRms).offset, 1) << "there is none";
  EXPECT_GT(Orders(SoftmaxProblem{}).gain, 4);
  EXPECT_EQ(Orders(SoftmaxProblem{}).offset, 1) << "there is none";
}

// The last position of each short sequence is padding.
TEST_F(RowOrdersOf, RowsThatArePaddedNowAndThenExplainErrors) {
  rows_ = 1024;
  Fill(0, 0);
  for (std::size_t i = 0; i < inputs_.x.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (at / cols_ % 4 == 3 && at % cols_ < 900) inputs_.x[i] = 0.3;
  }
  EXPECT_GT(Orders(LayerNormProblem{}).offset, 1.5);
  EXPECT_GT(Orders(kRms).gain, 1.5);
}

// The squares of a norm are those of distances from the mean: of zeros they repeat, too.
TEST_F(RowOrdersOf, RowsPaddedWithZerosExplainErrorsOfTheFactor) {
  Fill(900, 0);
  EXPECT_GT(Orders(LayerNormProblem{}).gain, 3);
  EXPECT_LT(Orders(LayerNormProblem{}).offset, 1.3) << "zeros round nothing";
  EXPECT_LT(Orders(kRms).gain, 1.3) << "zeros round nothing";
}

// Rounded to 2^-14 before the maximum is subtracted, seven arguments have seven errors.
TEST_F(RowOrdersOf, FewLargeArgumentsOfASoftmaxLookLikeAnotherScale) {
  inputs_.x.resize(static_cast<std::size_t>(rows_ * cols_));
  for (std::size_t i = 0; i < inputs_.x.size(); ++i) {
    inputs_.x[i] = static_cast<double>(i * i % 7) - 3;
  }
  MakeSoftmax();
  for (double& x : inputs_.x) x += 1000;
  EXPECT_GT(Orders(SoftmaxProblem{}).scale, 30 * 0x1p-24);
  EXPECT_EQ(Orders(kRms).scale, 0) << "a norm has none";
  Fill(0, 0);
  MakeSoftmax();
  EXPECT_LT(Orders(SoftmaxProblem{}).scale, 0x1p-24);
}

TEST_F(RowOrdersOf, RowsThatAreNotFiniteAreLeftOut) {
  Fill(0, 0);
  std::fill_n(inputs_.x.begin(), cols_, std::numeric_limits<double>::quiet_NaN());
  MakeSoftmax();
  EXPECT_LT(Orders(LayerNormProblem{}).gain, 1.3);
  EXPECT_LT(Orders(SoftmaxProblem{}).gain, 1.3);
}

// The fit of a layer norm leaves out rows without a variance, so they must not excuse the others.
// An RMS norm has a factor there.
TEST_F(RowOrdersOf, ConstantRowsExplainNothingWhereTheFitLeavesThemOut) {
  Fill(0, 0);
  for (std::int64_t row = 0; row < rows_; row += 2) {
    std::fill_n(inputs_.x.begin() + row * cols_, cols_, 0.1F);
  }
  EXPECT_LT(Orders(LayerNormProblem{}).offset, 1.3);
  EXPECT_LT(Orders(LayerNormProblem{}).gain, 1.3);
  EXPECT_GT(Orders(kRms).gain, 4);
  inputs_.x.assign(inputs_.x.size(), 0.1F);
  EXPECT_EQ(Orders(LayerNormProblem{}).offset, 1);
  EXPECT_EQ(Orders(LayerNormProblem{}).gain, 1);
  inputs_.x.assign(inputs_.x.size(), 0);
  EXPECT_EQ(Orders(kRms).gain, 1);
}

// Of 800 rows 256 are summed: at those places lie rows that do not count, and others behind them.
TEST_F(RowOrdersOf, TheNextRowThatCountsStandsForOneThatDoesNot) {
  rows_ = 800;
  cols_ = 250;
  Fill(225, 0.3);
  for (std::int64_t i = 0; i < 256; ++i) {
    std::fill_n(inputs_.x.begin() + i * rows_ / 256 * cols_, cols_, 0.0);
  }
  EXPECT_GT(Orders(LayerNormProblem{}).offset, 2);
  EXPECT_GT(Orders(LayerNormProblem{}).gain, 2);
  EXPECT_GT(Orders(kRms).gain, 2);
}

// One row, however long it is, and no more addends than 2^22 beside it.
TEST_F(RowOrdersOf, LongRowsAreFew) {
  rows_ = 8;
  cols_ = 1 << 20;
  inputs_.x.assign(static_cast<std::size_t>(rows_ * cols_), 0.0);
  for (std::size_t i = 0; i < inputs_.x.size(); ++i) {
    inputs_.x[i] = static_cast<double>(static_cast<float>(std::sin(static_cast<double>(i))));
  }
  Orders(kRms);
  EXPECT_EQ(inputs_.read, 4);
}

}  // namespace
}  // namespace assay
