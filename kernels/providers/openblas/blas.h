// BLAS calls by type, with 64-bit extents checked, and what is known of the library.
//
// Thread-safety: calls from inside a parallel region run on one thread each.
#ifndef ASSAY_KERNELS_PROVIDERS_OPENBLAS_BLAS_H_
#define ASSAY_KERNELS_PROVIDERS_OPENBLAS_BLAS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/numerics/dtype.h"

namespace assay::blas {

// "0.3.21".
std::string Version();
// The processor whose kernels run and the library's build: "SkylakeX, openmp".
std::string Implementation();

inline std::vector<DType> Formats() { return {DType::kF32, DType::kF64}; }

// UNIMPLEMENTED unless inputs and output are both fp32 or both fp64.
absl::Status CheckFormats(DType in, DType out);
// UNIMPLEMENTED unless every extent fits the library's 32-bit integers.
absl::Status CheckExtents(std::initializer_list<std::int64_t> extents);

// C = alpha·op(A)·op(B) + beta·C, row-major. [elements] leading dimensions.
template <class T>
struct GemmArgs {
  bool trans_a = false;
  bool trans_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  T alpha = 1;
  const T* a = nullptr;
  std::int64_t lda = 0;
  const T* b = nullptr;
  std::int64_t ldb = 0;
  T beta = 0;
  T* c = nullptr;
  std::int64_t ldc = 0;
};

void Gemm(const GemmArgs<float>& g);
void Gemm(const GemmArgs<double>& g);

// y = x, contiguous; `count` fits 32 bits.
void Copy(std::int64_t count, const float* x, float* y);
void Copy(std::int64_t count, const double* x, double* y);

}  // namespace assay::blas

#endif  // ASSAY_KERNELS_PROVIDERS_OPENBLAS_BLAS_H_
