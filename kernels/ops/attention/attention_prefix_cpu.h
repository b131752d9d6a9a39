// The results of one query over ever more keys, of which each is added once: what causal queries
// that are equal need. For r and E see attention_reference.h; both come from sums over the keys.
//
// With p = e^(s - m) and m the largest score so far, the sums are of p·v, p·|v|, p·t·|v|, |v|, p
// and p·t, where t = 2u·|s - m| + δ. A larger score changes m to m': then p is multiplied by
// e^(m - m'), and 2u·(m' - m) is added to each t.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PREFIX_CPU_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PREFIX_CPU_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/ops/attention/attention_bound.h"

namespace assay::inline kernels {

class AttentionPrefix {
 public:
  // `bound` must outlive it.
  AttentionPrefix(const AttentionBound& bound, std::int64_t dim)
      : bound_(bound), dim_(dim), sums_(static_cast<std::size_t>(4 * dim)) {}

  // Adds a key with q·k, |q|·|k| and its values. False if the score is not finite; no result means
  // anything then.
  bool Add(double dot, double absolute, const double* values);
  // r without scale_v, and what E is made of: Σ (p/l)·ε·|v| + w·Σ|v|/l of each column. Returns
  // Σ (p/l)·(ε − u_P). There must be a key.
  double Result(double* r, double* e) const;
  double max_abs_score() const { return max_abs_score_; }

 private:
  const AttentionBound& bound_;
  const std::int64_t dim_;
  std::vector<double> sums_;  // of p·v, p·|v|, p·t·|v|, |v|, [4, dim]
  double max_ = -std::numeric_limits<double>::infinity();
  double delta_ = 0;  // δ of the largest score
  double weights_ = 0, errors_ = 0;
  double max_abs_score_ = 0;
  std::int64_t keys_ = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PREFIX_CPU_H_
