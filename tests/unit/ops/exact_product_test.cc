// The exact product against plain integer sums, for every split of the work: elements
// small enough to go in pairs and not, sums longer than a block, edges of every tile.
#include "kernels/ops/common/exact_product.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/common/load.h"

namespace assay {
namespace {

struct Matrix {
  std::vector<std::uint8_t> bytes;
  std::vector<std::int64_t> values;  // [row, k]
};

// [rows, k], stored with k or the rows behind one another.
Matrix Fill(DType t, std::int64_t rows, std::int64_t k, bool along_k, std::int64_t largest,
            unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<std::int64_t> draw(-largest, largest);
  Matrix m;
  m.bytes.resize(static_cast<std::size_t>(StorageBytes(t, rows * k)));
  m.values.resize(static_cast<std::size_t>(rows * k));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < k; ++i) {
      // The first row all of one sign and size: the largest sum there is.
      const std::int64_t v = r == 0 ? largest : draw(engine);
      m.values[static_cast<std::size_t>(r * k + i)] = v;
      StoreBits(t, m.bytes.data(), along_k ? r * k + i : i * rows + r,
                RoundToFormat(static_cast<double>(v), t));
    }
  }
  return m;
}

void ExpectExact(DType t, std::int64_t m, std::int64_t n, std::int64_t k, bool along,
                 std::int64_t largest) {
  const Matrix a = Fill(t, m, k, along, largest, 1), b = Fill(t, n, k, !along, largest, 2);
  const StridedSource sa(t, a.bytes.data(), 0, along ? k : 1, along ? 1 : m);
  const StridedSource sb(t, b.bytes.data(), 0, along ? 1 : k, along ? n : 1);
  const std::int64_t ld = n + 3;
  std::vector<double> value(static_cast<std::size_t>(m * ld), -1.5);
  ExactProduct(sa, sb, k, static_cast<double>(largest), {0, m, 0, n}, value.data(), ld);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += a.values[static_cast<std::size_t>(i * k + l)] *
               b.values[static_cast<std::size_t>(j * k + l)];
      }
      ASSERT_EQ(value[static_cast<std::size_t>(i * ld + j)], static_cast<double>(sum))
          << Name(t) << " " << m << "x" << n << "x" << k << " to " << largest << " at " << i << ","
          << j;
    }
    for (std::int64_t j = n; j < ld; ++j) {
      ASSERT_EQ(value[static_cast<std::size_t>(i * ld + j)], -1.5) << "beside the tile";
    }
  }
}

TEST(ExactProduct, EqualsIntegerSums) {
  for (const std::int64_t largest : {1, 4, 5, 6, 64, 128}) {
    for (const bool along : {true, false}) {
      ExpectExact(DType::kF32, 1, 1, 1, along, largest);
      ExpectExact(DType::kF32, 25, 33, 127, along, largest);
      ExpectExact(DType::kF32, 97, 300, 130, along, largest);
      ExpectExact(DType::kF16, 13, 7, 2500, along, largest);
      ExpectExact(DType::kBF16, 24, 32, 513, along, largest);
    }
  }
  ExpectExact(DType::kI8, 20, 40, 3000, true, 127);
  ExpectExact(DType::kF64, 20, 40, 70, true, 4);
  ExpectExact(DType::kE4M3FN, 20, 40, 700, false, 4);
}

TEST(LoadFloats, EqualsTheFormatsValues) {
  for (const DType t : {DType::kF32, DType::kTF32, DType::kF16, DType::kBF16, DType::kE4M3FN,
                        DType::kE5M2FNUZ, DType::kE2M1, DType::kI8}) {
    std::vector<std::uint8_t> bytes(4 * 700);
    std::mt19937 engine(3);
    std::vector<float> values(600);
    for (int i = 0; i < 700; ++i) {
      StoreBits(t, bytes.data(), i, RoundToFormat(static_cast<double>(engine() % 200) - 100, t));
    }
    for (const std::int64_t begin : {0, 3}) {
      LoadFloats(t, bytes.data(), begin, 597, values.data());
      for (std::int64_t i = 0; i < 597; ++i) {
        ASSERT_EQ(static_cast<double>(values[static_cast<std::size_t>(i)]),
                  LoadDouble(t, bytes.data(), begin + i))
            << Name(t) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace assay
