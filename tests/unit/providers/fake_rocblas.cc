// A stand-in for librocblas, on host memory: it computes a product in column-major terms
// from its arguments alone, and refuses what rocBLAS has not.
#include <cstdint>
#include <cstring>

#include "fake_column_major.h"
#include "fake_rocblas.h"
#include "kernels/providers/rocblas/api.h"

namespace {

using assay::DType;
using assay::fake::Matrix;
using assay::fake::RocblasSeen;
using assay::rocblas::Algorithm;
using assay::rocblas::Atomics;
using assay::rocblas::DataType;
using assay::rocblas::Handle;
using assay::rocblas::Operation;
using assay::rocblas::Status;

RocblasSeen seen;

DType FormatOf(DataType t) {
  switch (t) {
    case DataType::kF16:
      return DType::kF16;
    case DataType::kF32:
      return DType::kF32;
    case DataType::kF64:
      return DType::kF64;
    case DataType::kI8:
      return DType::kI8;
    case DataType::kI32:
      return DType::kI32;
    case DataType::kBF16:
      return DType::kBF16;
  }
  return DType::kUnspecified;
}

double ScalarOf(DataType type, const void* p) {
  if (type == DataType::kF64) return *static_cast<const double*>(p);
  if (type == DataType::kI32) return *static_cast<const std::int32_t*>(p);
  return static_cast<double>(*static_cast<const float*>(p));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const RocblasSeen* fake_rocblas_seen() { return &seen; }

Status rocblas_create_handle(Handle* handle) {
  ++seen.handles;
  *handle = &seen;
  return Status::kSuccess;
}
Status rocblas_set_stream(Handle, void* stream) {
  seen.stream = stream;
  return Status::kSuccess;
}
Status rocblas_set_atomics_mode(Handle, Atomics mode) {
  seen.atomics = static_cast<int>(mode);
  return Status::kSuccess;
}
Status rocblas_set_workspace(Handle, void* data, std::size_t bytes) {
  seen.workspace = data;
  seen.workspace_bytes = bytes;
  return Status::kSuccess;
}
Status rocblas_get_version_string(char* text, std::size_t bytes) {
  constexpr char kVersion[] = "4.4.0.1234";
  if (bytes < sizeof kVersion) return Status::kInvalidSize;
  std::memcpy(text, kVersion, sizeof kVersion);
  return Status::kSuccess;
}
const char* rocblas_status_to_string(Status) { return "rocblas_status_not_implemented"; }

Status rocblas_gemm_strided_batched_ex(
    Handle, Operation op_a, Operation op_b, std::int32_t m, std::int32_t n, std::int32_t k,
    const void* alpha, const void* a_data, DataType a_type, std::int32_t lda, std::int64_t stride_a,
    const void* b_data, DataType b_type, std::int32_t ldb, std::int64_t stride_b, const void* beta,
    const void* c_data, DataType c_type, std::int32_t ldc, std::int64_t stride_c, void* d_data,
    DataType d_type, std::int32_t ldd, std::int64_t stride_d, std::int32_t batch_count,
    DataType compute, Algorithm algorithm, std::int32_t, std::uint32_t) {
  if (a_type != b_type || c_type != d_type || algorithm != Algorithm::kStandard ||
      (compute == DataType::kI32) != (a_type == DataType::kI8) || seen.workspace == nullptr) {
    return Status::kNotImplemented;
  }
  std::memset(seen.workspace, 0x5a, 64);
  std::memset(static_cast<char*>(seen.workspace) + seen.workspace_bytes - 64, 0x5a, 64);
  ++seen.launches;
  seen.compute_type = static_cast<int>(compute);
  const bool trans_a = op_a == Operation::kTranspose, trans_b = op_b == Operation::kTranspose;
  const auto matrix = [](const void* data, DataType type, std::int64_t rows, std::int64_t cols,
                         std::int64_t ld, std::int64_t stride) {
    return Matrix{const_cast<void*>(data), FormatOf(type), rows, cols, ld, stride};
  };
  const Matrix a = matrix(a_data, a_type, trans_a ? k : m, trans_a ? m : k, lda, stride_a);
  const Matrix b = matrix(b_data, b_type, trans_b ? n : k, trans_b ? k : n, ldb, stride_b);
  const Matrix c = matrix(c_data, c_type, m, n, ldc, stride_c);
  const Matrix d = matrix(d_data, d_type, m, n, ldd, stride_d);
  if (lda < a.rows || ldb < b.rows || ldc < m || ldd < m) return Status::kInvalidSize;
  const double factor = ScalarOf(compute, alpha), added = ScalarOf(compute, beta);
  for (std::int64_t batch = 0; batch < batch_count; ++batch) {
    for (std::int64_t col = 0; col < n; ++col) {
      for (std::int64_t row = 0; row < m; ++row) {
        double x = factor * Dot(a, trans_a, b, trans_b, batch, row, col);
        if (added != 0.0) x += added * c.Get(batch, row, col);
        d.Set(batch, row, col, x);
      }
    }
  }
  return Status::kSuccess;
}

Status rocblas_gemm_ex(Handle handle, Operation op_a, Operation op_b, std::int32_t m,
                       std::int32_t n, std::int32_t k, const void* alpha, const void* a,
                       DataType a_type, std::int32_t lda, const void* b, DataType b_type,
                       std::int32_t ldb, const void* beta, const void* c, DataType c_type,
                       std::int32_t ldc, void* d, DataType d_type, std::int32_t ldd,
                       DataType compute, Algorithm algorithm, std::int32_t solution,
                       std::uint32_t flags) {
  ++seen.single_launches;
  return rocblas_gemm_strided_batched_ex(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, 0, b,
                                         b_type, ldb, 0, beta, c, c_type, ldc, 0, d, d_type, ldd, 0,
                                         1, compute, algorithm, solution, flags);
}

}  // extern "C"
