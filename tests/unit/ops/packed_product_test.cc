// The packed product and what feeds it, apart from the operators.
#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"

namespace assay {
namespace {

TEST(LoadDoubles, EveryCodeOfTheSmallFormatsIsExact) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    std::vector<std::uint16_t> codes(65536);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
    std::vector<double> values(codes.size());
    LoadDoubles(t, codes.data(), 0, 65536, values.data());
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const double expected = ToDouble(t, i);
      EXPECT_TRUE(values[i] == expected || (std::isnan(values[i]) && std::isnan(expected)))
          << Name(t) << " " << i;
    }
  }
  std::vector<std::int8_t> bytes(256);
  for (int i = 0; i < 256; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i);
  std::vector<double> values(250);
  LoadDoubles(DType::kI8, bytes.data(), 3, 250, values.data());
  for (std::size_t i = 0; i < 250; ++i) EXPECT_EQ(values[i], static_cast<double>(bytes[i + 3]));
}

TEST(StridedSource, PacksBothOrientationsAlikeAndZeroesMissingRows) {
  constexpr std::int64_t kRows = 29, kDepth = 301;
  std::vector<float> by_row(kRows * kDepth), by_k(kRows * kDepth);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t k = 0; k < kDepth; ++k) {
      by_row[static_cast<std::size_t>(r * kDepth + k)] = static_cast<float>(1000 * r + k + 1);
      by_k[static_cast<std::size_t>(k * kRows + r)] = static_cast<float>(1000 * r + k + 1);
    }
  }
  const StridedSource sources[] = {{DType::kF32, by_row.data(), 0, kDepth, 1},
                                   {DType::kF32, by_k.data(), 0, 1, kRows}};
  for (std::int64_t width : {4, 6, 8, 12, 16}) {
    const std::int64_t r0 = 3, rows = 26, k0 = 7, kc = 290;
    const std::int64_t panels = (rows + width - 1) / width;
    for (const StridedSource& source : sources) {
      std::vector<double> packed(static_cast<std::size_t>(panels * width * kc), -1);
      source.Pack(r0, rows, k0, kc, width, packed.data());
      for (std::int64_t r = 0; r < panels * width; ++r) {
        for (std::int64_t k = 0; k < kc; ++k) {
          const double expected = r < rows ? static_cast<double>(1000 * (r0 + r) + k0 + k + 1) : 0;
          ASSERT_EQ(packed[static_cast<std::size_t>((r / width * kc + k) * width + r % width)],
                    expected)
              << "width " << width << " row " << r << " k " << k;
        }
      }
    }
  }
}

// Each part of a tile is given once, when both its sums are complete.
TEST(PackedProduct, GivesEachPartOfATileWhenItIsComplete) {
  constexpr std::int64_t kRows = 131, kCols = 300, kDepth = 800, kLd = 310;
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal;
  std::vector<double> a(kRows * kDepth), b(kCols * kDepth);
  for (double& v : a) v = normal(engine);
  for (double& v : b) v = normal(engine);
  const StridedSource left(DType::kF64, a.data(), 0, kDepth, 1);
  const StridedSource right(DType::kF64, b.data(), 0, kDepth, 1);
  const ProductTile tile = {3, kRows - 3, 2, kCols - 2};
  std::vector<double> value(kRows * kLd, -1), absolute = value, given = value, of_absolute = value;
  PackedProduct(left, right, kDepth, tile, value.data(), absolute.data(), kLd);
  std::vector<double> r = given, e = given;
  PackedProduct(left, right, kDepth, tile, r.data(), e.data(), kLd, [&](const ProductTile& part) {
    for (std::int64_t i = part.row0 - tile.row0; i < part.row0 - tile.row0 + part.rows; ++i) {
      for (std::int64_t j = part.col0 - tile.col0; j < part.col0 - tile.col0 + part.cols; ++j) {
        const auto at = static_cast<std::size_t>(i * kLd + j);
        EXPECT_EQ(given[at], -1) << i << " " << j;
        given[at] = r[at];
        of_absolute[at] = e[at];
        r[at] = e[at] = 0;
      }
    }
  });
  EXPECT_EQ(given, value);
  EXPECT_EQ(of_absolute, absolute);
}

TEST(DirectProduct, TakesItsOwnLeftMatrixForTheAbsoluteProduct) {
  constexpr std::int64_t kRows = 31, kLd = 36, kCols = 270, kDepth = 500;
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  std::vector<double> a(kDepth * kLd), w(kDepth * kLd), b(kDepth * kCols);
  for (double& v : a) v = normal(engine);
  for (double& v : w) v = normal(engine);
  for (double& v : b) v = normal(engine);
  std::vector<double> value(kRows * kCols), absolute(kRows * kCols);
  DirectProduct(a.data(), w.data(), kLd, kRows, StridedSource(DType::kF64, b.data(), 0, 1, kCols),
                kCols, kDepth, value.data(), absolute.data(), kCols);
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      double sum = 0, other = 0;
      for (std::int64_t k = 0; k < kDepth; ++k) {
        const double right = b[static_cast<std::size_t>(k * kCols + j)];
        sum += a[static_cast<std::size_t>(k * kLd + i)] * right;
        other += w[static_cast<std::size_t>(k * kLd + i)] * std::abs(right);
      }
      EXPECT_NEAR(value[static_cast<std::size_t>(i * kCols + j)], sum, 1e-11);
      EXPECT_NEAR(absolute[static_cast<std::size_t>(i * kCols + j)], other, 1e-11);
    }
  }
}

// While B is packed, a further product and weighted squares of its rows are made.
TEST(DirectProduct, MakesAFurtherProductAndWeightedSquaresBeside) {
  constexpr std::int64_t kRows = 31, kLd = 36, kCols = 270, kDepth = 501, kBeside = 5, kLda = 12;
  std::mt19937_64 engine(4);
  std::normal_distribution<double> normal;
  std::vector<double> a(kDepth * kLd), other(kDepth * kLda), weights(kDepth), b(kDepth * kCols);
  for (std::vector<double>* v : {&a, &other, &weights, &b}) {
    for (double& x : *v) x = normal(engine);
  }
  const StridedSource source(DType::kF64, b.data(), 0, 1, kCols);
  std::vector<double> value(kRows * kCols), absolute(value.size());
  DirectProduct(a.data(), a.data(), kLd, kRows, source, kCols, kDepth, value.data(),
                absolute.data(), kCols);
  std::vector<double> product(kBeside * kCols, -1), squares(kCols, -1);
  const BesideProduct beside = {other.data(),   kLda,           kBeside,
                                product.data(), weights.data(), squares.data()};
  std::vector<double> same(value.size()), also(value.size());
  DirectProduct(a.data(), a.data(), kLd, kRows, source, kCols, kDepth, same.data(), also.data(),
                kCols, &beside);
  EXPECT_EQ(same, value);
  EXPECT_EQ(also, absolute);
  for (std::int64_t j = 0; j < kCols; ++j) {
    double sums[kBeside] = {}, square = 0;
    for (std::int64_t k = 0; k < kDepth; ++k) {
      const double right = b[static_cast<std::size_t>(k * kCols + j)];
      square += weights[static_cast<std::size_t>(k)] * right * right;
      for (std::int64_t i = 0; i < kBeside; ++i) {
        sums[i] += other[static_cast<std::size_t>(k * kLda + i)] * right;
      }
    }
    EXPECT_NEAR(squares[static_cast<std::size_t>(j)], square, 1e-11);
    for (std::int64_t i = 0; i < kBeside; ++i) {
      EXPECT_NEAR(product[static_cast<std::size_t>(i * kCols + j)], sums[i], 1e-11);
    }
  }
}

}  // namespace
}  // namespace assay
