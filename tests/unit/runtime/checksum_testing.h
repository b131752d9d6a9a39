// Helps the tests of checksums, on the CPU and on GPUs.
#ifndef ASSAY_TESTS_UNIT_RUNTIME_CHECKSUM_TESTING_H_
#define ASSAY_TESTS_UNIT_RUNTIME_CHECKSUM_TESTING_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/checksum.h"

namespace assay {

inline std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }

// A batch of matrices and vectors from both sides, all of it whole numbers small
// enough that every order of the sums gives the same.
struct Problem {
  std::vector<std::uint64_t> storage;
  std::vector<double> right, left, row_weights, col_weights;
  ChecksumRequest request;

  Problem(DType dtype, const Extents& x, int probes, bool shared) {
    storage.resize(Size(StorageBytes(dtype, x.span())) / 8 + 8);
    const double most = dtype == DType::kE2M1 ? 4 : 8;
    for (std::int64_t i = 0; i < x.span(); ++i) {
      const double value = std::fmod(static_cast<double>(i * i % 101), most + 1) - most / 2;
      StoreBits(dtype, storage.data(), i, RoundToFormat(value, dtype));
    }
    const std::int64_t sets = shared ? 1 : x.batch;
    const auto vectors = [&](std::int64_t count, int salt) {
      std::vector<double> v(Size(sets * count));
      for (std::size_t i = 0; i < v.size(); ++i) {
        v[i] = static_cast<double>((i * 7 + static_cast<std::size_t>(salt)) % 5) - 1.0;
      }
      return v;
    };
    right = vectors(probes * x.cols, 1);
    left = vectors(probes * x.rows, 2);
    row_weights = vectors(x.cols, 3);
    col_weights = vectors(x.rows, 4);
    request.matrix = TensorView{storage.data(), dtype, x};
    request.probes = probes;
    request.right = {right.data(), shared ? 0 : probes * x.cols};
    request.left = {left.data(), shared ? 0 : probes * x.rows};
    request.row_weights = {row_weights.data(), shared ? 0 : x.cols};
    request.col_weights = {col_weights.data(), shared ? 0 : x.rows};
    request.squares = request.counts = true;
  }

  double At(std::int64_t b, std::int64_t i, std::int64_t j) const {
    const Extents& x = request.matrix.extents;
    return LoadDouble(request.matrix.dtype, storage.data(), b * x.batch_stride + i * x.ld + j);
  }
  void Set(std::int64_t b, std::int64_t i, std::int64_t j, std::uint64_t bits) {
    const Extents& x = request.matrix.extents;
    StoreBits(request.matrix.dtype, storage.data(), b * x.batch_stride + i * x.ld + j, bits);
  }
};

inline ChecksumSums Plain(const Problem& problem) {
  const ChecksumRequest& r = problem.request;
  const Extents& x = r.matrix.extents;
  ChecksumSums s;
  s.row_products.resize(Size(x.batch * r.probes * x.rows));
  s.col_products.resize(Size(x.batch * r.probes * x.cols));
  s.row_absolute.resize(Size(x.batch * x.rows));
  s.col_absolute.resize(Size(x.batch * x.cols));
  s.row_squares.resize(Size(x.batch * x.rows));
  s.col_squares.resize(Size(x.batch * x.cols));
  for (std::int64_t b = 0; b < x.batch; ++b) {
    for (std::int64_t i = 0; i < x.rows; ++i) {
      for (std::int64_t j = 0; j < x.cols; ++j) {
        const double v = problem.At(b, i, j);
        const double* right = r.right.data + b * r.right.batch_stride;
        const double* left = r.left.data + b * r.left.batch_stride;
        for (std::int64_t p = 0; p < r.probes; ++p) {
          s.row_products[Size((b * r.probes + p) * x.rows + i)] += v * right[p * x.cols + j];
          s.col_products[Size((b * r.probes + p) * x.cols + j)] += v * left[p * x.rows + i];
        }
        s.row_absolute[Size(b * x.rows + i)] +=
            std::abs(v) * r.row_weights.data[b * r.row_weights.batch_stride + j];
        s.col_absolute[Size(b * x.cols + j)] +=
            std::abs(v) * r.col_weights.data[b * r.col_weights.batch_stride + i];
        s.row_squares[Size(b * x.rows + i)] += v * v;
        s.col_squares[Size(b * x.cols + j)] += v * v;
        s.zero_count += v == 0 ? 1 : 0;
      }
    }
  }
  return s;
}

inline Extents Padded(std::int64_t batch, std::int64_t rows, std::int64_t cols) {
  const std::int64_t ld = cols + 6;
  return Extents{batch, rows, cols, ld, rows * ld + 10};
}

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_RUNTIME_CHECKSUM_TESTING_H_
