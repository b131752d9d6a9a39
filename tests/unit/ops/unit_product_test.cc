// The product with a matrix of single elements, against sums of all its products.
#include "kernels/ops/common/unit_product.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace assay {
namespace {

constexpr std::int64_t kM = 70, kN = 45, kK = 33;

// Rows of fp32, stored by rows or by columns.
struct Stored {
  float& at(std::int64_t row, std::int64_t k) {
    return values[static_cast<std::size_t>(by_rows ? row * kK + k : k * rows + row)];
  }
  StridedMatrix matrix() const {
    return {DType::kF32, values.data(), 0, by_rows ? kK : 1, by_rows ? 1 : rows};
  }
  std::int64_t rows = 0;
  bool by_rows = false;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(rows * kK));
};

Stored Dense(std::int64_t rows, bool by_rows) {
  Stored s{rows, by_rows};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < kK; ++k) {
      s.at(i, k) = static_cast<float>(std::sin(static_cast<double>(i * kK + k)));
    }
  }
  return s;
}

// Every fifth row has none.
Stored Units(std::int64_t rows, bool by_rows) {
  Stored s{rows, by_rows};
  for (std::int64_t i = 0; i < rows; ++i) {
    if (i % 5 != 3) s.at(i, i * 7 % kK) = static_cast<float>(i % 2 == 0 ? -0.3 : 1.7);
  }
  return s;
}

// Whether the product is made; if so, it is the sum of all products, and no 0 has a sign.
bool Makes(Stored a, Stored b) {
  std::vector<double> value(kM * kN, -1);
  if (!UnitProduct(a.matrix(), kM, b.matrix(), kN, kK, value.data())) return false;
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < kK; ++k) {
        sum += static_cast<double>(a.at(i, k)) * static_cast<double>(b.at(j, k));
      }
      const double got = value[static_cast<std::size_t>(i * kN + j)];
      EXPECT_EQ(got, sum) << i << " " << j;
      EXPECT_EQ(std::signbit(got), std::signbit(sum)) << i << " " << j;
    }
  }
  return true;
}

TEST(UnitProduct, IsTheSumOfAllProducts) {
  for (const bool by_rows : {false, true}) {
    EXPECT_TRUE(Makes(Units(kM, by_rows), Dense(kN, false)));
    EXPECT_TRUE(Makes(Dense(kM, true), Units(kN, by_rows)));
    EXPECT_TRUE(Makes(Units(kM, true), Units(kN, by_rows)));
  }
}

TEST(UnitProduct, LeavesOtherMatricesAlone) {
  EXPECT_FALSE(Makes(Dense(kM, true), Dense(kN, false)));
  for (const bool by_rows : {false, true}) {
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{20}, kM - 1}) {
      Stored two = Units(kM, by_rows);
      two.at(row, kK - 1) += 0.5f;
      two.at(row, 0) += 0.5f;
      EXPECT_FALSE(Makes(two, Dense(kN, false))) << row;
    }
    Stored two = Units(kN, by_rows);
    two.at(kN - 1, 0) += 0.5f;
    two.at(kN - 1, kK - 1) += 0.5f;
    EXPECT_FALSE(Makes(Dense(kM, true), two));
  }
}

// 0 times these is not 0.
TEST(UnitProduct, LeavesInfinitiesAndNanAlone) {
  for (const float odd : {INFINITY, NAN}) {
    Stored a = Dense(kM, true), b = Dense(kN, false);
    a.at(kM - 1, 4) = b.at(kN - 1, 4) = odd;
    EXPECT_FALSE(Makes(Units(kM, true), b));
    EXPECT_FALSE(Makes(a, Units(kN, true)));
  }
}

// Elements that are needed together lie apart.
TEST(UnitProduct, IsLeftOutWhereItWouldBeSlow) {
  EXPECT_FALSE(Makes(Units(kM, true), Dense(kN, true)));
  EXPECT_FALSE(Makes(Dense(kM, false), Units(kN, true)));
}

}  // namespace
}  // namespace assay
