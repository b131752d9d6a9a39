// The right output of a gemm, and how far a right kernel may be from it.
//
//   r = α·Σ a·b + β·c0
//   E = |α|·(min(8·√k·u, γ_(k+8))·Σ|a||b| + k·η/2) + u·(|α·Σ a·b| + |β·c0| + |r|)
// without the last term where α = 1, β = 0; counted twice for fp64, and 0 where r
// is not finite.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/ops/common/planning.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/ops/op.h"

namespace assay {

// From the two sums of an element to r and E.
struct GemmEpilogue {
  ProductBound product;
  double alpha = 1;
  double beta = 0;
  double u = 0;
  double times = 1;

  bool plain() const { return alpha == 1.0 && beta == 0.0; }
  double Value(double sum, double c0) const {
    return plain() ? sum : alpha * sum + (beta != 0.0 ? beta * c0 : 0.0);
  }
  double Allowance(double sum, double absolute, double c0) const {
    const double r = Value(sum, c0);
    if (!std::isfinite(r)) return 0.0;
    double e = std::abs(alpha) * product.Allowance(absolute);
    if (!plain()) {
      e += times * u *
           (std::abs(alpha * sum) + (beta != 0.0 ? std::abs(beta * c0) : 0.0) + std::abs(r));
    }
    return e;
  }
};

GemmEpilogue MakeGemmEpilogue(const GemmProblem& problem, DType input, bool flushes_subnormals);

// r and E of some output elements, by plain loops; `indices` sorted. allowance is
// left alone for integers.
void GemmReferenceAt(const GemmProblem& problem, DType input, bool flushes_subnormals,
                     const HostInputs& inputs, std::span<const std::int64_t> indices, double* value,
                     double* allowance);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_H_
