// Calls BLAS by type, checks 64-bit extents, and describes the library and its kernels.
//
// Calls inside a parallel region run on one thread each.
#ifndef ASSAY_KERNELS_PROVIDERS_OPENBLAS_BLAS_H_
#define ASSAY_KERNELS_PROVIDERS_OPENBLAS_BLAS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/numerics/dtype.h"
#include "kernels/providers/provider.h"

namespace assay::inline kernels::blas {

// The processor whose kernels run, and the library's build: "SkylakeX, openmp".
std::string Implementation();

// The registry's entry of a kernel for fp32 and fp64.
KernelEntry Entry(std::string_view op, KernelFactory make);

// UNIMPLEMENTED if inputs and output are not both fp32 or both fp64.
absl::Status CheckFormats(DType in, DType out);
// UNIMPLEMENTED if an extent does not fit into the library's 32-bit integers.
absl::Status CheckExtents(std::initializer_list<std::int64_t> extents);

// C = alpha·op(A)·op(B) + beta·C, row-major. Leading dimensions are in elements.
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

// y = x, contiguous. `count` must fit into 32 bits.
void Copy(std::int64_t count, const float* x, float* y);
void Copy(std::int64_t count, const double* x, double* y);

}  // namespace assay::kernels::blas

#endif  // ASSAY_KERNELS_PROVIDERS_OPENBLAS_BLAS_H_
