// gemm with cblas_sgemm and cblas_dgemm, one call for each batch. The scales of A and B are part of
// alpha. If beta is not 0, C is copied into D first. Many small batches are spread over the
// threads, one call each.
#include <algorithm>
#include <memory>
#include <string>
#include <variant>

#include "kernels/providers/openblas/blas.h"
#include "kernels/providers/openblas/openblas.h"
#include "kernels/providers/refusals.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

// With fewer multiplications than this, a call does not use all threads.
constexpr double kSmallGemm = 128.0 * 128.0 * 128.0;

template <class T>
class GemmKernel : public Kernel {
 public:
  explicit GemmKernel(const GemmProblem& p) : p_(p) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const double work =
        static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k);
    if (p_.batch > 1 && work < kSmallGemm) {
      ParallelFor(p_.batch, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) One(i, inputs, output);
      });
    } else {
      for (std::int64_t i = 0; i < p_.batch; ++i) One(i, inputs, output);
    }
    return absl::OkStatus();
  }

  std::string implementation() const override { return blas::Implementation(); }

 private:
  void One(std::int64_t i, std::span<const TensorView> inputs, const TensorView& output) const {
    const TensorView& a = inputs[0];
    const TensorView& b = inputs[1];
    T* d = output.as<T>() + i * output.extents.batch_stride;
    if (p_.beta != 0.0) {
      const TensorView& c = inputs[2];
      const T* from = c.as<T>() + i * c.extents.batch_stride;
      for (std::int64_t r = 0; r < p_.m; ++r) {
        std::copy_n(from + r * c.extents.ld, p_.n, d + r * output.extents.ld);
      }
    }
    blas::Gemm(blas::GemmArgs<T>{
        .trans_a = p_.trans_a,
        .trans_b = p_.trans_b,
        .m = p_.m,
        .n = p_.n,
        .k = p_.k,
        .alpha = static_cast<T>(p_.alpha) * static_cast<T>(p_.scale_a) * static_cast<T>(p_.scale_b),
        .a = a.as<const T>() + i * a.extents.batch_stride,
        .lda = a.extents.ld,
        .b = b.as<const T>() + i * b.extents.batch_stride,
        .ldb = b.extents.ld,
        .beta = static_cast<T>(p_.beta),
        .c = d,
        .ldc = output.extents.ld});
  }

  GemmProblem p_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device&) {
  const auto& p = std::get<GemmProblem>(c.problem);
  if (absl::Status s = RefuseGemmEpilogue(p, "OpenBLAS gemm"); !s.ok()) return s;
  const DType format = plan.inputs[0].dtype;
  absl::Status ok = blas::CheckFormats(format, plan.output.dtype);
  if (ok.ok()) {
    ok = blas::CheckExtents({p.m, p.n, p.k, plan.inputs[0].extents.ld, plan.inputs[1].extents.ld,
                             plan.output.extents.ld});
  }
  if (!ok.ok()) return ok;
  if (format == DType::kF32) return std::make_unique<GemmKernel<float>>(p);
  return std::make_unique<GemmKernel<double>>(p);
}

}  // namespace

KernelEntry OpenblasGemm() { return blas::Entry("gemm", &Make); }

}  // namespace assay::kernels
