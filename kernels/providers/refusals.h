// Refuses fields of a problem that a provider's kernel does not implement. Kernels never ignore
// such fields.
//
// Each function returns OK, or UNIMPLEMENTED with the field and its value. Any thread may call
// them.
#ifndef ASSAY_KERNELS_PROVIDERS_REFUSALS_H_
#define ASSAY_KERNELS_PROVIDERS_REFUSALS_H_

#include <string_view>

#include "absl/status/status.h"
#include "kernels/ops/attention/problem.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/ops/plan.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

// `who` is the kernel's name in the message, such as "OpenBLAS gemm".
inline absl::Status RefuseGemmEpilogue(const GemmProblem& p, std::string_view who) {
  const auto missing = [&](std::string_view what) {
    return absl::UnimplementedError(Cat(who, " has no ", what));
  };
  if (p.channel_scale) return missing("scale a column (gemm.channel_scale)");
  if (p.bias) return missing("bias (gemm.bias)");
  if (p.activation != "none")
    return missing(Cat("activation (gemm.activation ", p.activation, ")"));
  return absl::OkStatus();
}

// For libraries that pad sums of bf16 products with zeros. 0·Inf is NaN, so infinite operands give
// NaN that the sum does not have.
inline absl::Status RefuseInfiniteBf16(const Plan& plan, std::string_view who) {
  for (std::size_t i = 0; i < 2; ++i) {
    const Operand& o = plan.inputs[i];
    if (o.dtype != DType::kBF16 || !MayBeInfinite(o.pattern, o.dtype)) continue;
    return absl::UnimplementedError(Cat(who,
                                        " pads sums of bf16 products with zeros, and 0·Inf is "
                                        "NaN; got infinite ",
                                        o.name, " (", ToString(o.pattern), ")"));
  }
  return absl::OkStatus();
}

inline absl::Status RefuseAttentionScales(const AttentionProblem& p, std::string_view who) {
  if (p.scale_q == 1.0 && p.scale_k == 1.0 && p.scale_v == 1.0) return absl::OkStatus();
  return absl::UnimplementedError(Cat(who, " has no scales of Q, K and V; got attention.scale_q ",
                                      p.scale_q, ", scale_k ", p.scale_k, ", scale_v ", p.scale_v));
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_REFUSALS_H_
