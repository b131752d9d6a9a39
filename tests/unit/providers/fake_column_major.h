// A product as BLAS-like libraries define it: column-major, in plain loops and double. What
// the tests' own libraries compute, from nothing but what they were told.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_FAKE_COLUMN_MAJOR_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_FAKE_COLUMN_MAJOR_H_

#include <cstdint>
#include <cstring>

#include "kernels/numerics/convert.h"

namespace assay::fake {

// [rows, cols], element (r, c) of batch b at data + b·batch_stride + c·ld + r.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kUnspecified;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t ld = 0;
  std::int64_t batch_stride = 0;

  unsigned char* At(std::int64_t b, std::int64_t r, std::int64_t c) const {
    return static_cast<unsigned char*>(data) +
           (b * batch_stride + c * ld + r) * StorageBytes(dtype, 1);
  }
  double Get(std::int64_t b, std::int64_t r, std::int64_t c) const {
    std::uint64_t code = 0;
    std::memcpy(&code, At(b, r, c), static_cast<std::size_t>(StorageBytes(dtype, 1)));
    return ToDouble(dtype, code);
  }
  void Set(std::int64_t b, std::int64_t r, std::int64_t c, double value) const {
    const std::uint64_t code = RoundToFormat(
        value, dtype, Info(dtype).storage_bits == 8 ? Overflow::kSat : Overflow::kNonSat);
    std::memcpy(At(b, r, c), &code, static_cast<std::size_t>(StorageBytes(dtype, 1)));
  }
};

// Σ op(A)(r, i)·op(B)(i, c).
inline double Dot(const Matrix& a, bool trans_a, const Matrix& b, bool trans_b, std::int64_t batch,
                  std::int64_t r, std::int64_t c) {
  const std::int64_t k = trans_a ? a.rows : a.cols;
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    sum += (trans_a ? a.Get(batch, i, r) : a.Get(batch, r, i)) *
           (trans_b ? b.Get(batch, c, i) : b.Get(batch, i, c));
  }
  return sum;
}

}  // namespace assay::fake

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_FAKE_COLUMN_MAJOR_H_
