// Thresholds that are scaled by what the usual orders of a sum do to the data at hand: no right
// product exceeds them, of other orders either, and a product of TF32 inputs still does.
#include "kernels/judge/summation_orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/numerics/deviation.h"
#include "kernels/text/cat.h"
#include "tests/unit/judge/products.h"

namespace assay {
namespace {

using namespace testing;

constexpr double kThreshold = 2;  // of R, for data in random order

// R of fp32 outputs.
double Rms(const SampledProducts& products, const std::vector<double>& output) {
  const OutputSteps steps = OutputStepsOf(DType::kF32);
  double sum = 0;
  for (std::int64_t i = 0; i < products.count(); ++i) {
    double r = 0, q = 0;
    for (std::int64_t k = 0; k < products.terms; ++k) {
      const double x = products.left_of(i)[k] * products.right_of(i)[k];
      r += x;
      q += x * x;
    }
    const double e = output[static_cast<std::size_t>(i)] - r;
    const double terms = static_cast<double>(products.terms);
    sum += e * e / (SumVariance(terms, 0x1p-24, r, q) + steps.Variance(r));
  }
  return std::sqrt(sum / static_cast<double>(products.count()));
}

// Orders that are not among the emulated ones, and the usual ones on all elements.
std::vector<Order> OtherOrders() {
  std::vector<Order> orders = UsualOrders();
  for (const std::int64_t n : {3, 6, 12, 24, 96}) {
    orders.push_back({"lanes", [n](const Matrices& m) { return Lanes(m, n); }});
  }
  for (const std::int64_t n : {3, 5, 16, 32}) {
    orders.push_back({"split-K", [n](const Matrices& m) { return SplitK(m, n); }});
  }
  return orders;
}

struct Pair {
  Data a, b;
};
std::vector<Pair> OrderedData() {
  return {
      {SortedData(), SortedData()},      {SortedData(), NormalData()},
      {SortedData(), PositiveData()},    {SmoothData(), SmoothData()},
      {SmoothData(), NormalData()},      {RampData(), RampData()},
      {RampData(), NormalData()},        {AlternatingData(), PositiveData()},
      {AlternatingData(), NormalData()}, {AlternatingData(), SmoothData()},
      {ConstantData(), ConstantData()},
  };
}

TEST(SummationOrders, RandomOrderLeavesThresholdsAsTheyAre) {
  for (const Data& data : {NormalData(), PositiveData(), HeavyTailedData()}) {
    for (const std::int64_t terms : {64, 1024, 8192}) {
      const OrderEffect e = EmulateOrders(Matrices(data, data, terms, 5).Products(), DType::kF32);
      EXPECT_EQ(e.elements, 256);
      EXPECT_GT(e.largest_rms, 0.6) << data.name;
      EXPECT_LT(e.largest_rms, 0.9) << data.name;
      EXPECT_LT(e.factor, 1.2) << data.name;
      EXPECT_GE(e.factor, 1) << data.name;
    }
  }
}

TEST(SummationOrders, NoRightOrderExceedsTheThresholds) {
  for (const Pair& pair : OrderedData()) {
    for (const std::int64_t terms : {64, 1024, 8192}) {
      if (terms > kMostTerms) continue;
      const Matrices m(pair.a, pair.b, terms, 5);
      const SampledProducts products = m.Products();
      const OrderEffect e = EmulateOrders(products, DType::kF32);
      EXPECT_EQ(e.elements, 256);
      for (const Order& order : OtherOrders()) {
        EXPECT_LT(Rms(products, order.multiply(m)), kThreshold * e.factor)
            << pair.a.name << " by " << pair.b.name << ", " << terms << " terms, " << order.name;
      }
    }
  }
}

// g of fp32 outputs.
double Gain(const SampledProducts& products, const std::vector<double>& output) {
  const OutputSteps steps = OutputStepsOf(DType::kF32);
  double errors = 0, squares = 0;
  for (std::int64_t i = 0; i < products.count(); ++i) {
    double r = 0, q = 0;
    for (std::int64_t k = 0; k < products.terms; ++k) {
      const double x = products.left_of(i)[k] * products.right_of(i)[k];
      r += x;
      q += x * x;
    }
    const double terms = static_cast<double>(products.terms);
    const double variance = SumVariance(terms, 0x1p-24, r, q) + steps.Variance(r);
    errors += (output[static_cast<std::size_t>(i)] - r) * r / variance;
    squares += r * r / variance;
  }
  return errors / squares;
}

// Sums of few distinct positive products are all too large or all too small.
TEST(SummationOrders, FewLevelsShareTheirError) {
  const Matrices m(FourBitData(), FourBitData(), 4096, 5);
  const SampledProducts products = m.Products();
  const OrderEffect e = EmulateOrders(products, DType::kF32);
  for (const Order& order : UsualOrders()) {
    EXPECT_LT(std::abs(Gain(products, order.multiply(m))), 2 * e.largest_gain) << order.name;
  }
  EXPECT_GT(e.largest_gain, 10 * 0x1p-24);
  const OrderEffect random =
      EmulateOrders(Matrices(NormalData(), NormalData(), 4096, 5).Products(), DType::kF32);
  EXPECT_LT(random.largest_gain, 0x1p-24);
}

TEST(SummationOrders, TF32InputsExceedTheThresholds) {
  const auto tf32 = [](float v) { return To(DType::kTF32, v); };
  for (const Pair& pair : OrderedData()) {
    const Matrices m(pair.a, pair.b, 1024, 5);
    const SampledProducts products = m.Products();
    const OrderEffect e = EmulateOrders(products, DType::kF32);
    for (const Order& order : UsualOrders()) {
      EXPECT_GT(Rms(products, order.multiply(Rounded(m, tf32, tf32))), kThreshold * e.factor)
          << pair.a.name << " by " << pair.b.name << ", " << order.name;
    }
  }
}

TEST(SummationOrders, TheLeastExactOrderIsNamed) {
  const OrderEffect alternating =
      EmulateOrders(Matrices(AlternatingData(), PositiveData(), 1024, 5).Products(), DType::kF32);
  EXPECT_EQ(alternating.order, "2 lanes");
  EXPECT_GT(alternating.factor, 8);
  const OrderEffect ramp =
      EmulateOrders(Matrices(RampData(), RampData(), 1024, 5).Products(), DType::kF32);
  EXPECT_EQ(ramp.order, "backwards") << "the largest products come first";
}

// Signs of period n make every one of n lanes a sum of one sign.
TEST(SummationOrders, LanesAreTheLeastExactOnDataOfTheirPeriod) {
  for (const std::int64_t n : {2, 4, 8, 16, 32, 64, 128, 256}) {
    Data signs = PositiveData();
    signs.fill = [n](std::int64_t k, std::int64_t, auto& random) {
      return (k % n < n / 2 ? 1.0 : -1.0) * (0.5 + Uniform(random));
    };
    const Matrices m(signs, PositiveData(), 4096, 5);
    SampledProducts products = m.Products();
    products.elements.resize(static_cast<std::size_t>(OrderSamples(products.terms)));
    const OrderEffect e = EmulateOrders(products, DType::kF32);
    EXPECT_EQ(e.order, Cat(n, " lanes"));
    const double rms = Rms(products, Lanes(m, n));
    EXPECT_NEAR(e.largest_rms, rms, 1e-9 * rms);
    EXPECT_DOUBLE_EQ(e.factor, e.largest_rms / kUsualOrderRms);
  }
}

TEST(SummationOrders, ThePrefixSumsAreThoseOfThePlainFormula) {
  for (const Pair& pair : OrderedData()) {
    SampledProducts products = Matrices(pair.a, pair.b, 100, 5).Products();
    products.elements.resize(200);
    const OutputSteps steps = OutputStepsOf(DType::kF32);
    double sum = 0;
    for (std::int64_t i = 0; i < products.count(); ++i) {
      double r = 0, q = 0, low = 0, high = 0;
      for (std::int64_t k = 0; k < products.terms; ++k) {
        const double x = products.left_of(i)[k] * products.right_of(i)[k];
        r += x;
        q += x * x;
        low = std::min(low, r);
        high = std::max(high, r);
      }
      const double terms = static_cast<double>(products.terms), width = high - low;
      const double prefix = 0x1p-48 / 3 * (terms * width * width + q) + steps.Variance(r);
      sum += prefix / (SumVariance(terms, 0x1p-24, r, q) + steps.Variance(r));
    }
    const double rms = std::sqrt(sum / static_cast<double>(products.count()));
    const OrderEffect e = EmulateOrders(products, DType::kF32);
    EXPECT_EQ(e.elements, 200);
    EXPECT_NEAR(e.prefix_rms, rms, 1e-9 * rms) << pair.a.name << " by " << pair.b.name;
  }
}

// σ_W bounds the contiguous orders on any data, and strided lanes not at all.
TEST(SummationOrders, PrefixSumsBoundContiguousOrders) {
  constexpr double kLargest = 0.75;  // R against σ_W
  for (const Pair& pair : OrderedData()) {
    if (pair.a.name == ConstantData().name) continue;  // its roundings all have one direction
    const Matrices m(pair.a, pair.b, 1024, 5);
    const SampledProducts products = m.Products();
    const OrderEffect e = EmulateOrders(products, DType::kF32);
    for (const Order& order : UsualOrders()) {
      if (order.name == "8 lanes") continue;
      EXPECT_LT(Rms(products, order.multiply(m)), kLargest * e.prefix_rms)
          << pair.a.name << " by " << pair.b.name << ", " << order.name;
    }
  }
  const Matrices m(AlternatingData(), PositiveData(), 1024, 5);
  const OrderEffect e = EmulateOrders(m.Products(), DType::kF32);
  EXPECT_GT(Rms(m.Products(), Lanes(m, 2)), kLargest * e.prefix_rms);
}

// The rounding of the output is a part of σ: an output of few bits hides the order.
TEST(SummationOrders, NarrowOutputsHideTheOrder) {
  const SampledProducts products = Matrices(SortedData(), PositiveData(), 256, 5).Products();
  EXPECT_GT(EmulateOrders(products, DType::kF32).factor, 4);
  const OrderEffect narrow = EmulateOrders(products, DType::kBF16);
  EXPECT_LT(narrow.factor, 1.6);
  EXPECT_GT(narrow.largest_rms, 0.8) << "a uniform error of one rounding has R 1";
}

TEST(SummationOrders, FactorsOfPowersOfTwoChangeNothing) {
  SampledProducts products = Matrices(SortedData(), PositiveData(), 256, 5).Products();
  const OrderEffect before = EmulateOrders(products, DType::kF32);
  for (SampledProducts::Element& e : products.elements) e.factor = -0.25;
  const OrderEffect after = EmulateOrders(products, DType::kF32);
  EXPECT_DOUBLE_EQ(after.largest_rms, before.largest_rms);
  EXPECT_DOUBLE_EQ(after.prefix_rms, before.prefix_rms);
}

TEST(SummationOrders, NothingIsKnownOfNothing) {
  const Matrices m(NormalData(), NormalData(), 64, 5);
  const auto expect_unknown = [](const SampledProducts& products, DType output) {
    const OrderEffect e = EmulateOrders(products, output);
    EXPECT_EQ(e.elements, 0);
    EXPECT_EQ(e.factor, 1);
  };
  SampledProducts products = m.Products();
  products.format = DType::kF64;
  expect_unknown(products, DType::kF64);
  products.format = DType::kI8;
  expect_unknown(products, DType::kF32);
  products = m.Products();
  products.elements.clear();
  expect_unknown(products, DType::kF32);
  products = m.Products();
  products.left.values.assign(products.left.values.size(), 0.0);
  expect_unknown(products, DType::kF32);
  products = m.Products();
  for (double& v : products.left.values) v *= 0x1p100;
  for (double& v : products.right.values) v *= 0x1p100;
  expect_unknown(products, DType::kF32);
}

TEST(SummationOrders, ElementsThatAreNotFiniteAreLeftOut) {
  SampledProducts products = Matrices(NormalData(), NormalData(), 64, 5).Products();
  for (std::int64_t row = 0; row < kSide / 2; ++row) {
    products.left.values[static_cast<std::size_t>(row * 64 + 3)] =
        row % 2 == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  }
  const OrderEffect e = EmulateOrders(products, DType::kF32);
  EXPECT_EQ(e.elements, 128);
  EXPECT_LT(e.factor, 1.3);
}

TEST(SummationOrders, FewElementsDo) {
  SampledProducts products = Matrices(NormalData(), NormalData(), 64, 5).Products();
  products.elements.resize(3);
  EXPECT_EQ(EmulateOrders(products, DType::kF32).elements, 3);
  products.terms = 1;
  products.elements.resize(1);
  EXPECT_EQ(EmulateOrders(products, DType::kF32).elements, 1);
  EXPECT_EQ(OrderSamples(0), 256);
  EXPECT_EQ(OrderSamples(1), 256);
  EXPECT_EQ(OrderSamples(1 << 16), 256);
  EXPECT_EQ(OrderSamples(1 << 18), 64);
  EXPECT_EQ(OrderSamples(1 << 24), 8);
}

}  // namespace
}  // namespace assay
