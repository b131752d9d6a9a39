#include "kernels/providers/openblas/blas.h"

#include <cblas.h>

#include <limits>
#include <vector>

#include "absl/strings/str_split.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::blas {
namespace {

blasint Int(std::int64_t v) { return static_cast<blasint>(v); }

CBLAS_TRANSPOSE Op(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

// "0.3.21".
std::string Version() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY USE_OPENMP SkylakeX MAX_THREADS=128"
  const std::vector<std::string> words = absl::StrSplit(openblas_get_config(), ' ');
  return words.size() > 1 ? words[1] : std::string("unknown");
}

}  // namespace

KernelEntry Entry(std::string_view op, KernelFactory make) {
  return KernelEntry{.op = op,
                     .provider = "openblas",
                     .backend = "cpu",
                     .dtypes = {DType::kF32, DType::kF64},
                     .make = make,
                     .version = Version()};
}

std::string Implementation() {
  const int parallel = openblas_get_parallel();
  return Cat(openblas_get_corename(), parallel == OPENBLAS_OPENMP   ? ", openmp"
                                      : parallel == OPENBLAS_THREAD ? ", pthread"
                                                                    : ", sequential");
}

absl::Status CheckFormats(DType in, DType out) {
  if (in == DType::kBF16) {
    return absl::UnimplementedError(
        "this OpenBLAS exports no sbgemm; it computes fp32 and fp64, got bf16");
  }
  if (in != DType::kF32 && in != DType::kF64) {
    return absl::UnimplementedError(Cat("OpenBLAS computes fp32 and fp64, got ", Name(in)));
  }
  if (in != out) {
    return absl::UnimplementedError(
        Cat("OpenBLAS writes the format it reads, ", Name(in), "; got ", Name(out)));
  }
  return absl::OkStatus();
}

absl::Status CheckExtents(std::initializer_list<std::int64_t> extents) {
  for (const std::int64_t e : extents) {
    if (e > std::numeric_limits<blasint>::max()) {
      return absl::UnimplementedError(
          Cat("this OpenBLAS takes 32-bit extents and leading dimensions, got ", e));
    }
  }
  return absl::OkStatus();
}

void Gemm(const GemmArgs<float>& g) {
  cblas_sgemm(CblasRowMajor, Op(g.trans_a), Op(g.trans_b), Int(g.m), Int(g.n), Int(g.k), g.alpha,
              g.a, Int(g.lda), g.b, Int(g.ldb), g.beta, g.c, Int(g.ldc));
}

void Gemm(const GemmArgs<double>& g) {
  cblas_dgemm(CblasRowMajor, Op(g.trans_a), Op(g.trans_b), Int(g.m), Int(g.n), Int(g.k), g.alpha,
              g.a, Int(g.lda), g.b, Int(g.ldb), g.beta, g.c, Int(g.ldc));
}

void Copy(std::int64_t count, const float* x, float* y) { cblas_scopy(Int(count), x, 1, y, 1); }
void Copy(std::int64_t count, const double* x, double* y) { cblas_dcopy(Int(count), x, 1, y, 1); }

}  // namespace assay::kernels::blas
