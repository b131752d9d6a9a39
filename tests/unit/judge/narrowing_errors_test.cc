// The errors of narrowings, held against plain FP64 sums of values rounded by the scalar
// conversion, for lengths and samples that fill no block of the fast code.
#include "kernels/judge/narrowing_errors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/numerics/convert.h"
#include "tests/unit/judge/products.h"

namespace assay {
namespace {

double Narrow(Narrower narrower, double v) {
  const float f = static_cast<float>(v);
  switch (narrower) {
    case Narrower::kF32:
      return static_cast<double>(f);
    case Narrower::kTF32:
      return Quantise(v, DType::kTF32);
    case Narrower::kTF32Truncated:
      return static_cast<double>(
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) & 0xffffe000));
    case Narrower::kF16:
      return Quantise(v, DType::kF16);
    case Narrower::kBF16:
      return Quantise(v, DType::kBF16);
    case Narrower::kBF16Truncated:
      return static_cast<double>(
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) & 0xffff0000));
    case Narrower::kBF16x2:
      break;
  }
  const double high = Quantise(v, DType::kBF16);
  return high + Quantise(v - high, DType::kBF16);
}

double Low(double v) { return Quantise(v - Quantise(v, DType::kBF16), DType::kBF16); }

SampledProducts Random(std::int64_t terms, std::int64_t rows, std::int64_t columns) {
  SampledProducts products;
  products.format = DType::kF32;
  products.terms = terms;
  std::mt19937_64 random(static_cast<std::uint64_t>(terms));
  const auto fill = [&](std::vector<double>& values, std::int64_t vectors) {
    for (std::int64_t i = 0; i < vectors * terms; ++i) {
      // Magnitudes from fp16's subnormal numbers to 2^10.
      const double scale = std::ldexp(1.0, static_cast<int>(random() % 30) - 20);
      values.push_back(static_cast<double>(static_cast<float>(scale * testing::Normal(random))));
    }
  };
  fill(products.left.values, rows);
  fill(products.right.values, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = i % 3; j < columns; j += 3) {
      products.elements.push_back({i, j, i % 2 == 0 ? 1.0 : -0.375});
    }
  }
  return products;
}

TEST(NarrowingErrors, AreThoseOfPlainSums) {
  struct Shape {
    std::int64_t terms, rows, columns;
  };
  for (const Shape& shape : {Shape{1, 5, 3}, Shape{255, 4, 70}, Shape{257, 66, 5},
                             Shape{3001, 3, 4}, Shape{9000, 2, 3}}) {
    const SampledProducts products = Random(shape.terms, shape.rows, shape.columns);
    const NarrowingErrors errors = ComputeNarrowingErrors(products);
    const std::size_t count = products.elements.size();
    ASSERT_EQ(errors.narrowings.size(), 6u);
    ASSERT_EQ(errors.low.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const double* a = products.left_of(at);
      const double* b = products.right_of(at);
      const double factor = products.elements[i].factor;
      double aa = 0, bb = 0, low = 0, low_size = 0;
      for (std::int64_t k = 0; k < shape.terms; ++k) {
        aa += a[k] * a[k];
        bb += b[k] * b[k];
        low += Low(a[k]) * Low(b[k]);
        low_size += std::abs(Low(a[k]) * Low(b[k]));
      }
      EXPECT_NEAR(errors.low[i], factor * low, 1e-6 * low_size);
      const double scale = std::abs(factor) * std::sqrt(aa * bb);
      EXPECT_NEAR(errors.scale[i], scale, 1e-9 * scale);
      for (std::size_t n = 0; n < errors.narrowings.size(); ++n) {
        double left = 0, right = 0, left_size = 0, right_size = 0;
        for (std::int64_t k = 0; k < shape.terms; ++k) {
          const Narrower narrower = errors.narrowings[n].narrower;
          const double da = Narrow(narrower, a[k]) - a[k], db = Narrow(narrower, b[k]) - b[k];
          left += da * b[k];
          right += a[k] * db;
          left_size += std::abs(da * b[k]);
          right_size += std::abs(a[k] * db);
        }
        EXPECT_NEAR(errors.left[n * count + i], factor * left, 1e-6 * left_size) << n;
        EXPECT_NEAR(errors.right[n * count + i], factor * right, 1e-6 * right_size) << n;
      }
    }
  }
}

TEST(NarrowingErrors, OnlyFormatsWithFewerBitsAreInTheTable) {
  EXPECT_EQ(NarrowingsOf(DType::kF64).size(), std::size(kNarrowings));
  EXPECT_EQ(NarrowingsOf(DType::kF32).size(), std::size(kNarrowings) - 1);
  ASSERT_EQ(NarrowingsOf(DType::kTF32).size(), 2u);
  EXPECT_EQ(NarrowingsOf(DType::kF16).front().narrower, Narrower::kBF16);
  EXPECT_TRUE(NarrowingsOf(DType::kBF16).empty());
  EXPECT_TRUE(NarrowingsOf(DType::kE4M3FN).empty());
  EXPECT_TRUE(NarrowingsOf(DType::kI8).empty());
  EXPECT_TRUE(NarrowingsOf(DType::kI32).empty());
}

TEST(NarrowingErrors, WhatIsNotFiniteStaysInItsElements) {
  SampledProducts products = Random(20, 4, 3);
  products.left.values[0] = std::numeric_limits<double>::infinity();
  products.left.values[20] = std::nan("");
  products.left.values[40] = 1e6;  // beyond fp16
  const NarrowingErrors errors = ComputeNarrowingErrors(products);
  const std::size_t count = products.elements.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t row = products.elements[i].left;
    for (std::size_t n = 0; n < errors.narrowings.size(); ++n) {
      const bool half = errors.narrowings[n].narrower == Narrower::kF16;
      EXPECT_EQ(std::isfinite(errors.left[n * count + i]), row > 2 || (row == 2 && !half));
    }
    EXPECT_EQ(std::isfinite(errors.scale[i]), row > 1);
  }
}

}  // namespace
}  // namespace assay
