// The right output of an attention, and how far a right kernel may be from it.
//
// For one query, over its visible keys j, with s = scale·q·k, m = max s, p =
// exp(s − m), l = Σp:
//   r   = scale_v·Σ p·v / l
//   ε_j = u_P + c_n + u·(8 + 2|s − m|) + δ_j + δ_max
//   δ_j = c_d·(|q|·|k|)·scale + u·|s|,   δ_max that of the largest score
//   E   = |scale_v|·(Σ (p/l)·ε·|v| + max(w/l, w_l)·Σ|v| + S·η/2) + |r|·Σ (p/l)·(ε − u_P)
// scale holds scale_q and scale_k. Each of the two that is not 1 adds u·(|q|·|k|)·scale
// to δ_j, for kernels that scale Q or K first, and a scale_v that is not 1 adds u to ε,
// for those that scale V, or else the result.
// c_n = min(8·√n·u_a, γ_(n+8)) for n visible keys, c_d likewise for dim, u_a being u or the
// roundoff of the narrower accumulator that a kernel declares; u_P the
// unit roundoff of the format P is held in, which is the input's, since kernels
// round P to it before the second product; w the most that P loses to underflow:
// half its smallest subnormal, or the accumulator's smallest normal, which fast
// exponentials flush below; w_l what P in 16 bits loses to underflow if it is divided by l before
// it is rounded, half its smallest subnormal; S the number of all keys and η the accumulator's
// smallest number, or its smallest normal one for η/2 if the kernel flushes. For 8-bit floats u_P
// covers kernels whose P is e4m3 or e5m2 as its inputs are, and w those that do not scale P into
// their range. Counted twice for fp64, and 0 where r is not finite.
//
// A kernel that declares a format of roundoff u_i for its intermediate results may round the scaled
// Q, the scaled K and the score to it: 3·u_i·(|q|·|k|)·scale is added to δ_j. Its P may be in that
// format as well, so u_P and w are the larger of both formats'.
//
// A query without a visible key gives 0 or NaN, as the problem says. An infinite
// or NaN score makes its row NaN, as IEEE arithmetic has it (inf − inf).
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/ops/attention/attention_bound.h"
#include "kernels/ops/attention/attention_deviation.h"
#include "kernels/ops/attention/problem.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// Keys a query sees before the mask: [0, result).
inline std::int64_t VisibleKeys(const AttentionProblem& p, std::int64_t query) {
  if (!p.causal) return p.KvSeq();
  return std::clamp<std::int64_t>(query + 1 + p.KvSeq() - p.seq, 0, p.KvSeq());
}

// Of an attention's case.
AttentionBound MakeAttentionBound(const Case& c, const Plan& plan);
AttentionDeviation MakeAttentionDeviation(const Case& c, const Plan& plan);

// κ, an upper bound of proven over probabilistic E. The proven E has γ_(n+8) and γ_(dim+8)
// in the place of c_n and c_d, and nothing else: u_P, w, 8·u and the terms of s are
// proven as they stand, and are not to be multiplied. With D_j the growth of ε_j,
//   D_j = Δ + (κ_d − 1)·c_d·t_j,   Δ = γ_(n+8) − c_n,   κ_d = γ_(dim+8)/c_d,
//   t_j = (|q|·|k_j| + |q|·|k_max|)·scale,   ψ = |r|/Σ p·|v| <= 1,
// the allowance grows by Σ p·D·|v| + |r|·Σ p·D, and relative to what it is, with
// ε_j − u_P >= c_n + 8·u + c_d·t_j, by at most
//   max_j (1 + ψ)·(Δ + (κ_d − 1)·c_d·t)/(u_P + (1 + ψ)·(c_n + 8·u + c_d·t)),
// t between the t_j and their mean. That rises with ψ, so ψ = 1; in t it lies between its
// values at 0 and without end, so that
//   κ = max(κ_d, 1 + 2·Δ/(u_P + 2·(c_n + 8·u)))
// which grows with n: that of all keys serves rows that see fewer.
//
// For dim <= 128 and rows that see all keys κ·E is below 2·E_proven for 8- and 16-bit floats, whose
// u_P is most of it (2.2 for fp16 beyond 8,192 keys, whose w_l is multiplied as well), and for fp32
// where |q|·|k|·scale is below 6, as normal data have it: κ_d is at most 1.5 (2.1 at 256), and ψ =
// 1 costs rows that cancel at most twice their growth. Scores where c_d·t is most of E, of tens for
// fp32 and of hundreds for fp16, and early rows of a causal problem are given more, up to κ: of
// 16384 keys 1.5 for 8-bit floats and bf16, 4 for fp16, 16 for fp32.
double AttentionProvenFactor(const AttentionProblem& problem, DType input,
                             const Accumulator& accumulator = {});

// r and E of some output elements, by plain loops; `indices` sorted.
void AttentionReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                          std::span<const std::int64_t> indices, double* value, double* allowance);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_H_
