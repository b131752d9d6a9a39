// What the order of the terms may do to tensors that a user sent: to the factor that all elements
// share, and to one row or column.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/judge/precision_evidence.h"
#include "kernels/judge/summation_orders.h"
#include "tests/unit/judge/products.h"
#include "tests/unit/judge/reading_fixture.h"

namespace assay::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::SizeIs;

// Of sums of 4,096 terms all 256 are emulated, and of longer ones fewer.
constexpr std::int64_t kTerms = 4096;

// Pairs of a left and a right vector of their own, for data that differ from element to element.
class Pairs {
 public:
  Pairs() {
    products_.format = DType::kF32;
    products_.terms = kTerms;
  }

  // Sixteen pairs of vectors of this data; the first index of them.
  std::int64_t AddData(const Data& data, double scale = 1) {
    const std::int64_t first = vectors_;
    for (std::int64_t v = 0; v < kVectors; ++v) {
      for (std::vector<double>* side : {&products_.left.values, &products_.right.values}) {
        for (std::int64_t k = 0; k < kTerms; ++k) {
          side->push_back(
              static_cast<double>(static_cast<float>(scale * data.fill(k, kTerms, random_))));
        }
      }
    }
    vectors_ += kVectors;
    return first;
  }
  // The element `of` of the 256 that the data at `first` make.
  void AddElement(std::int64_t first, std::int64_t of) {
    products_.elements.push_back({first + of % kVectors, first + of / kVectors % kVectors, 1});
  }
  const SampledProducts& products() const { return products_; }

 private:
  static constexpr std::int64_t kVectors = 16;

  std::mt19937_64 random_{3};
  std::int64_t vectors_ = 0;
  SampledProducts products_;
};

class OrdersOfReceived : public Reading {
 protected:
  OrdersOfReceived() { received_ = true; }

  void Sample(SampledProducts products) {
    op_.at.clear();
    for (std::int64_t i = 0; i < products.count(); ++i) op_.at.push_back(i);
    op_.products = std::move(products);
    FillSums([](double v) { return v; });
  }
  // 256 elements of one kind.
  static SampledProducts Of(const Data& data) {
    Pairs pairs;
    const std::int64_t first = pairs.AddData(data);
    for (std::int64_t i = 0; i < 256; ++i) pairs.AddElement(first, i);
    return pairs.products();
  }
  static OrderEffect EffectOf(const SampledProducts& products) {
    return EmulateOrders(products, DType::kF32);
  }

  // What is said of errors that are a factor of 1 + gain of all elements and else small.
  Verdict SaidOf(double gain) {
    SetRms(1);
    device_.sums.reference_squared = 1e17;
    device_.sums.error_reference = gain * device_.sums.reference_squared;
    return Said();
  }
  // What is said of a row and a column whose R is so much, where at most 4 is right.
  Verdict SaidOfGroups(double row, double column) {
    SetRms(1);
    device_.sums.row = {row_, 1000, 100, 1000.0 * row * row};
    device_.sums.column = {column_, 100, 1000, 100.0 * column * column};
    return Said();
  }

  std::int64_t row_ = 3, column_ = 7;
};

// Sums of few distinct products of one sign share nearly all of their error.
TEST_F(OrdersOfReceived, MayGiveAllElementsAFactor) {
  const SampledProducts levels = Of(FourBitData());
  const double gain = EffectOf(levels).largest_gain;
  ASSERT_GT(gain, 3e-7);
  Sample(Of(NormalData()));
  EXPECT_EQ(SaidOf(0.8 * gain), Verdict::kFailed);
  Sample(levels);
  EXPECT_EQ(SaidOf(0.8 * gain), Verdict::kPassed);
  EXPECT_EQ(SaidOf(4 * gain), Verdict::kFailed);
  received_ = false;
  EXPECT_EQ(SaidOf(0.8 * gain), Verdict::kFailed) << "what was drawn has no such order";
}

// Of 16-bit inputs no output is sampled, and their orders are known all the same.
TEST_F(OrdersOfReceived, MayGiveElementsOf16BitInputsAFactor) {
  case_.dtype = DType::kBF16;
  const SampledProducts levels = Of(FourBitData());
  const double gain = EffectOf(levels).largest_gain;
  Sample(Of(NormalData()));
  EXPECT_EQ(SaidOf(0.8 * gain), Verdict::kInconclusive);
  Sample(levels);
  EXPECT_EQ(SaidOf(0.8 * gain), Verdict::kPassed);
}

TEST_F(OrdersOfReceived, MakeNoFactorWhereThereAreNone) {
  plan_.accumulations = 1;  // and no products
  EXPECT_EQ(SaidOf(1e-6), Verdict::kFailed);
}

// The factor is that of the largest elements, which may be few: 64 of the 1,024 that are sampled,
// and none of those that all elements are told by.
TEST_F(OrdersOfReceived, AreThoseOfTheLargestElements) {
  Pairs pairs;
  const std::int64_t levels = pairs.AddData(FourBitData(), 20);
  const std::int64_t others = pairs.AddData(PositiveData(), 8);
  for (std::int64_t i = 0; i < 1024; ++i) {
    const bool large = i >= 512 && i % 8 == 1;
    pairs.AddElement(large ? levels : others, large ? i / 8 : i);
  }
  const SampledProducts& all = pairs.products();
  std::vector<std::int64_t> large, every;
  for (std::int64_t i = 0; i < 1024; ++i) {
    every.push_back(i);
    if (i >= 512 && i % 8 == 1) large.push_back(i);
  }
  ASSERT_THAT(large, SizeIs(64));
  const double gain = EmulateOrders(all, DType::kF32, large).largest_gain;
  ASSERT_GT(gain, 3e-7);
  ASSERT_LT(EmulateOrders(all, DType::kF32, every).largest_gain, 0.5 * gain);
  ASSERT_LT(EffectOf(all).largest_gain, 0.5 * gain);
  Sample(all);
  EXPECT_EQ(SaidOf(0.8 * gain), Verdict::kPassed);
  EXPECT_EQ(SaidOf(4 * gain), Verdict::kFailed);
}

// Elements without a number are not the largest.
TEST_F(OrdersOfReceived, AreThoseOfElementsWithANumber) {
  Pairs pairs;
  const std::int64_t levels = pairs.AddData(FourBitData(), 20);
  const std::int64_t zeros = pairs.AddData(NormalData(), 0);
  std::vector<std::int64_t> large;
  for (std::int64_t i = 0; i < 1024; ++i) {
    const bool is_large = i % 4 == 1 && i >= 960;
    pairs.AddElement(is_large ? levels : zeros, i);
    if (is_large) large.push_back(i);
  }
  Sample(pairs.products());
  const double gain = EmulateOrders(pairs.products(), DType::kF32, large).largest_gain;
  ASSERT_GT(gain, 3e-7);
  EXPECT_EQ(SaidOf(0.5 * gain), Verdict::kPassed);
  for (std::size_t i = 0; i < 512; i += 4) reference_[i] = std::nan("");
  EXPECT_EQ(SaidOf(0.5 * gain), Verdict::kPassed);
}

// 64 elements whose terms have an order that moves their sums.
SampledProducts Alternating() {
  Pairs pairs;
  const std::int64_t left = pairs.AddData(AlternatingData());
  const std::int64_t right = pairs.AddData(PositiveData());
  SampledProducts products = pairs.products();
  for (std::int64_t i = 0; i < 64; ++i) {
    products.elements.push_back({left + i % 16, right + i / 16, 1});
  }
  return products;
}

// Elements of the row with the largest errors, and of the column, are emulated themselves: 64 of
// each, spread over it. There are two matrices of 50 rows.
TEST_F(OrdersOfReceived, MayMoveARowOrAColumnMore) {
  plan_.output.extents = Extents::Dense(2, 50, 1000);
  const SampledProducts usual = Of(NormalData()), moving = Alternating();
  const double factor = EffectOf(moving).factor;
  ASSERT_GT(factor, 1.2);
  std::vector<std::vector<std::int64_t>> asked;
  const std::vector<std::int64_t>* moved = nullptr;
  Sample(usual);
  op_.products_of = [&](std::span<const std::int64_t> at) -> std::optional<SampledProducts> {
    asked.emplace_back(at.begin(), at.end());
    return moved != nullptr && asked.back() == *moved ? moving : usual;
  };
  for (const std::int64_t index : {0, 49}) {
    row_ = column_ = index;
    std::vector<std::int64_t> in_row, in_column;
    for (std::int64_t i = 0; i < 64; ++i) {
      in_row.push_back(index * 1000 + i * 1000 / 64);
      in_column.push_back(index + i * 100 / 64 * 1000);
    }
    moved = nullptr;
    asked.clear();
    EXPECT_EQ(SaidOfGroups(9, 1), Verdict::kFailed);
    ASSERT_THAT(asked, SizeIs(3));
    EXPECT_THAT(asked[1], ElementsAreArray(in_row));
    EXPECT_THAT(asked[2], ElementsAreArray(in_column));
    EXPECT_EQ(SaidOfGroups(1, 9), Verdict::kFailed);
    for (const std::vector<std::int64_t>* at : {&in_row, &in_column}) {
      moved = at;
      EXPECT_EQ(SaidOfGroups(9, 1), Verdict::kInconclusive);
      EXPECT_EQ(SaidOfGroups(1, 9), Verdict::kInconclusive);
      EXPECT_EQ(SaidOfGroups(1, 8 * factor * 1.01), Verdict::kFailed);
    }
  }
}

// What the orders of all elements explain counts once.
TEST_F(OrdersOfReceived, MoveARowNoMoreThanAllIfTheyDo) {
  const SampledProducts moving = Alternating();
  const double factor = EffectOf(moving).factor;
  Sample(moving);
  op_.products_of = [&](std::span<const std::int64_t>) { return std::optional(moving); };
  EXPECT_EQ(SaidOfGroups(8 * factor * 0.99, 1), Verdict::kInconclusive);
  EXPECT_EQ(SaidOfGroups(8 * factor * 1.01, 1), Verdict::kFailed);
}

TEST_F(OrdersOfReceived, AreEmulatedOnlyIfTheyMayExplainAFailure) {
  int asked = 0;
  std::optional<SampledProducts> products = Of(NormalData());
  op_.products_of = [&](std::span<const std::int64_t>) {
    ++asked;
    return products;
  };
  for (std::int64_t i = 64; i < 256; ++i) op_.at.push_back(i);
  const auto times = [&](double row, Verdict verdict) {
    asked = 0;
    EXPECT_EQ(SaidOfGroups(row, 1), verdict);
    return asked;
  };
  EXPECT_EQ(times(3.9, Verdict::kPassed), 1) << "the sample";
  EXPECT_EQ(times(7.9, Verdict::kInconclusive), 1) << "it does not fail";
  EXPECT_EQ(times(9, Verdict::kFailed), 3) << "a row and a column";
  products.reset();
  plan_.accumulations = 1;
  EXPECT_EQ(times(9, Verdict::kFailed), 1) << "there are none";
  received_ = false;
  EXPECT_EQ(times(9, Verdict::kFailed), 0) << "it was drawn";
}

}  // namespace
}  // namespace assay::testing
