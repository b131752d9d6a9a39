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

}  // namespace
}  // namespace assay
