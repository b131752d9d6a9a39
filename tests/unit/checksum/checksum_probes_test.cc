// What is asked of a device for products with random vectors, and what is made of the answers:
// held against sums over plain loops.
#include "kernels/checksum/checksum_probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/numerics/philox.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

using Vector = std::vector<double>;

// The CPU, which keeps what it was asked for; from call `fails_from` on it refuses.
class AskedDevice : public testing::ForwardingDevice {
 public:
  absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& request) override {
    asked.push_back(request);
    if (asked.size() >= fails_from) {
      return absl::ResourceExhaustedError("refused call " + std::to_string(asked.size()));
    }
    return cpu_->Checksum(request);
  }
  std::vector<ChecksumRequest> asked;
  std::size_t fails_from = 1000;
};

TEST(RandomSigns, AreTheBitsOfPhilox) {
  constexpr std::uint64_t kSeed = 7;
  constexpr std::uint32_t kStream = 0x63680000;
  for (const std::int64_t n : {1, 32, 33, 100, 1100}) {
    const Vector v = RandomSigns(kSeed, kStream, 3, n);
    ASSERT_EQ(v.size(), static_cast<std::size_t>(3 * n));
    for (std::int64_t i = 0; i < 3 * n; ++i) {
      const auto stream = kStream + static_cast<std::uint32_t>(i / n);
      const std::uint32_t word = PhiloxWord(kSeed, stream, 0, i % n / 32);
      EXPECT_EQ(v[static_cast<std::size_t>(i)], (word >> (i % n % 32) & 1) != 0 ? 1.0 : -1.0) << i;
    }
  }
}

// A batch of matrices in fp64, stored as they are or transposed.
struct Matrices {
  Matrices(std::int64_t batch, std::int64_t m, std::int64_t n, bool stored_transposed)
      : rows(m),
        cols(n),
        transposed(stored_transposed),
        values(static_cast<std::size_t>(batch * m * n)),
        view{values.data(), DType::kF64,
             Extents::Dense(batch, transposed ? n : m, transposed ? m : n)} {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(static_cast<double>(i * i + values.size())) + 0.25;
    }
  }
  double& at(std::int64_t b, std::int64_t i, std::int64_t j) {
    const std::int64_t k = transposed ? j * rows + i : i * cols + j;
    return values[static_cast<std::size_t>(b * rows * cols + k)];
  }
  const std::int64_t rows, cols;
  const bool transposed;
  Vector values;
  TensorView view;
};

TEST(ProbedMatrices, AsksForRowsAndColumnsOfTheOperand) {
  const Vector right(2 * 5, 1), left(2 * 3, 1), of_rows(3, 1), of_cols(5, 1);
  for (const bool transposed : {false, true}) {
    AskedDevice device;
    Matrices m(2, 3, 5, transposed);
    const ProbedMatrices probed(device, m.view, transposed, 2);
    EXPECT_EQ(probed.bytes(), 2 * 15 * 8);
    ASSERT_TRUE(probed
                    .Pass({.right = &right,
                           .left = &left,
                           .row_weights = &of_cols,
                           .col_weights = &of_rows,
                           .squares = true,
                           .counts = true})
                    .ok());
    const ChecksumRequest& r = device.asked[0];
    EXPECT_EQ(r.matrix.data, m.view.data);
    EXPECT_EQ(r.probes, 2);
    EXPECT_EQ((transposed ? r.left : r.right).data, right.data());
    EXPECT_EQ((transposed ? r.right : r.left).data, left.data());
    EXPECT_EQ((transposed ? r.col_weights : r.row_weights).data, of_cols.data());
    EXPECT_EQ((transposed ? r.row_weights : r.col_weights).data, of_rows.data());
    for (const ProbeVectors& v : {r.right, r.left, r.row_weights, r.col_weights}) {
      EXPECT_EQ(v.batch_stride, 0) << "one matrix's";
    }
    EXPECT_TRUE(r.squares);
    EXPECT_TRUE(r.counts);
    ASSERT_TRUE(probed.Pass({.squares = true}).ok());
    EXPECT_EQ(device.asked[1].probes, 0);
    EXPECT_EQ(device.asked[1].right.data, nullptr);
    EXPECT_TRUE(device.asked[1].squares);
    EXPECT_FALSE(device.asked[1].counts);
    ASSERT_TRUE(probed.Pass({.right = &right}).ok());
    EXPECT_EQ(device.asked[2].probes, 2);
    EXPECT_FALSE(device.asked[2].squares);
    ASSERT_TRUE(probed.Pass({.left = &left}).ok());
    EXPECT_EQ(device.asked[3].probes, 2);
  }
}

TEST(ProbedMatrices, GivesEveryMatrixItsVectors) {
  const Vector right(2 * 2 * 5, 1), left(2 * 2 * 3, 1), of_rows(2 * 3, 1), of_cols(2 * 5, 1);
  AskedDevice device;
  Matrices m(2, 3, 5, false);
  ASSERT_TRUE(
      ProbedMatrices(device, m.view, false, 2)
          .Pass({.right = &right, .left = &left, .row_weights = &of_cols, .col_weights = &of_rows})
          .ok());
  EXPECT_EQ(device.asked[0].right.batch_stride, 10);
  EXPECT_EQ(device.asked[0].left.batch_stride, 6);
  EXPECT_EQ(device.asked[0].row_weights.batch_stride, 5);
  EXPECT_EQ(device.asked[0].col_weights.batch_stride, 3);
}

TEST(ProbedMatrices, AnswersForTheOperand) {
  const Vector right = RandomSigns(1, 1, 2, 5), left = RandomSigns(1, 9, 2, 3);
  const Vector of_rows = {1, 2, 3}, of_cols = {1, 2, 3, 4, 5};
  for (const bool transposed : {false, true}) {
    AskedDevice device;
    Matrices m(2, 3, 5, transposed);
    const absl::StatusOr<ChecksumSums> sums = ProbedMatrices(device, m.view, transposed, 2)
                                                  .Pass({.right = &right,
                                                         .left = &left,
                                                         .row_weights = &of_cols,
                                                         .col_weights = &of_rows,
                                                         .squares = true});
    ASSERT_TRUE(sums.ok()) << sums.status();
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t i = 0; i < 3; ++i) {
        double product[2] = {}, absolute = 0, squares = 0;
        for (std::int64_t j = 0; j < 5; ++j) {
          const auto at = static_cast<std::size_t>(j);
          for (std::size_t p = 0; p < 2; ++p) product[p] += m.at(b, i, j) * right[5 * p + at];
          absolute += std::abs(m.at(b, i, j)) * of_cols[at];
          squares += m.at(b, i, j) * m.at(b, i, j);
        }
        const auto at = static_cast<std::size_t>(b * 3 + i);
        EXPECT_NEAR(sums->row_absolute[at], absolute, 1e-13);
        EXPECT_NEAR(sums->row_squares[at], squares, 1e-13);
        for (std::int64_t p = 0; p < 2; ++p) {
          EXPECT_NEAR(sums->row_products[static_cast<std::size_t>((b * 2 + p) * 3 + i)], product[p],
                      1e-13);
        }
      }
    }
    EXPECT_EQ(sums->col_products.size(), 2u * 2 * 5);
    EXPECT_EQ(sums->col_absolute.size(), 2u * 5);
    EXPECT_EQ(sums->col_squares.size(), 2u * 5);
  }
}

struct Shape {
  std::int64_t m, n, k;
};
// The first operand is the larger one, the second one is, and both are as large.
constexpr Shape kShapes[] = {{7, 3, 5}, {3, 7, 5}, {4, 4, 5}};

TEST(ProbeProduct, IsTheProductFromBothSides) {
  constexpr std::int64_t kBatch = 2, kProbes = 3;
  for (const Shape& s : kShapes) {
    for (const bool transposed : {false, true}) {
      AskedDevice device;
      Matrices a(kBatch, s.m, s.k, transposed), b(kBatch, s.k, s.n, !transposed);
      const Vector x = RandomSigns(3, 1, kProbes, s.n), w = RandomSigns(3, 9, kProbes, s.m);
      const absl::StatusOr<ProbedProduct> made =
          ProbeProduct(ProbedMatrices(device, a.view, transposed, kProbes),
                       ProbedMatrices(device, b.view, !transposed, kProbes), x, w);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_TRUE(made->finite);
      // The larger operand is read once.
      int of_a = 0;
      for (const ChecksumRequest& r : device.asked) of_a += r.matrix.data == a.view.data ? 1 : 0;
      ASSERT_EQ(device.asked.size(), 3u);
      if (s.m != s.n) {
        EXPECT_EQ(of_a, s.m > s.n ? 1 : 2);
      }

      double largest_a = 0, largest_b = 0;
      for (std::int64_t batch = 0; batch < kBatch; ++batch) {
        Vector norm_a(static_cast<std::size_t>(s.k)), norm_b(norm_a);
        for (std::int64_t k = 0; k < s.k; ++k) {
          double sum = 0;
          for (std::int64_t i = 0; i < s.m; ++i) sum += a.at(batch, i, k) * a.at(batch, i, k);
          norm_a[static_cast<std::size_t>(k)] = std::sqrt(sum);
          sum = 0;
          for (std::int64_t j = 0; j < s.n; ++j) sum += b.at(batch, k, j) * b.at(batch, k, j);
          norm_b[static_cast<std::size_t>(k)] = std::sqrt(sum);
        }
        Vector row(static_cast<std::size_t>(kProbes * s.m)),
            column(static_cast<std::size_t>(kProbes * s.n));
        for (std::int64_t i = 0; i < s.m; ++i) {
          double norm = 0, squares = 0;
          for (std::int64_t k = 0; k < s.k; ++k) {
            norm += std::abs(a.at(batch, i, k)) * norm_b[static_cast<std::size_t>(k)];
            squares += a.at(batch, i, k) * a.at(batch, i, k);
            for (std::int64_t j = 0; j < s.n; ++j) {
              for (std::int64_t p = 0; p < kProbes; ++p) {
                const double product = a.at(batch, i, k) * b.at(batch, k, j);
                row[static_cast<std::size_t>(p * s.m + i)] +=
                    product * x[static_cast<std::size_t>(p * s.n + j)];
                column[static_cast<std::size_t>(p * s.n + j)] +=
                    product * w[static_cast<std::size_t>(p * s.m + i)];
              }
            }
          }
          EXPECT_NEAR(made->row_norm[static_cast<std::size_t>(batch * s.m + i)], norm, 1e-12);
          largest_a = std::max(largest_a, std::sqrt(squares));
        }
        for (std::int64_t j = 0; j < s.n; ++j) {
          double norm = 0, squares = 0;
          for (std::int64_t k = 0; k < s.k; ++k) {
            norm += std::abs(b.at(batch, k, j)) * norm_a[static_cast<std::size_t>(k)];
            squares += b.at(batch, k, j) * b.at(batch, k, j);
          }
          EXPECT_NEAR(made->col_norm[static_cast<std::size_t>(batch * s.n + j)], norm, 1e-12);
          largest_b = std::max(largest_b, std::sqrt(squares));
        }
        for (std::size_t i = 0; i < row.size(); ++i) {
          EXPECT_NEAR(made->rows[static_cast<std::size_t>(batch) * row.size() + i], row[i], 1e-12);
        }
        for (std::size_t j = 0; j < column.size(); ++j) {
          EXPECT_NEAR(made->columns[static_cast<std::size_t>(batch) * column.size() + j], column[j],
                      1e-12);
        }
      }
      EXPECT_NEAR(made->largest, largest_a * largest_b, 1e-12);
    }
  }
}

TEST(ProbeProduct, SaysWhichIsNotFinite) {
  for (const Shape& s : kShapes) {
    for (const bool first : {true, false}) {
      AskedDevice device;
      Matrices a(1, s.m, s.k, false), b(1, s.k, s.n, false);
      (first ? a : b).values[3] = std::numeric_limits<double>::quiet_NaN();
      const Vector x = RandomSigns(3, 1, 2, s.n), w = RandomSigns(3, 9, 2, s.m);
      const absl::StatusOr<ProbedProduct> made = ProbeProduct(
          ProbedMatrices(device, a.view, false, 2), ProbedMatrices(device, b.view, false, 2), x, w);
      ASSERT_TRUE(made.ok());
      EXPECT_FALSE(made->finite);
    }
  }
}

TEST(ProbeProduct, EndsWithTheFirstPassThatFails) {
  for (const Shape& s : kShapes) {
    for (const std::size_t call : {1, 2, 3}) {
      AskedDevice device;
      device.fails_from = call;
      Matrices a(1, s.m, s.k, false), b(1, s.k, s.n, true);
      const Vector x = RandomSigns(3, 1, 2, s.n), w = RandomSigns(3, 9, 2, s.m);
      const absl::StatusOr<ProbedProduct> made = ProbeProduct(
          ProbedMatrices(device, a.view, false, 2), ProbedMatrices(device, b.view, true, 2), x, w);
      EXPECT_EQ(made.status(),
                absl::ResourceExhaustedError("refused call " + std::to_string(call)));
      EXPECT_EQ(device.asked.size(), call);
    }
  }
}

TEST(Checksum, LargestOfNothingIsZero) {
  EXPECT_EQ(Largest({}), 0);
  EXPECT_EQ(Largest({1, 3, 2}), 3);
  EXPECT_TRUE(AllFinite({}));
  EXPECT_FALSE(AllFinite({1, std::numeric_limits<double>::infinity()}));
}

}  // namespace
}  // namespace assay
