#include "kernels/ops/attention/attention_prefix_cpu.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/attention/attention_weights_cpu.h"

namespace assay::inline kernels {

bool AttentionPrefix::Add(double dot, double absolute, const double* values) {
  const double score = bound_.scale * dot;
  if (!std::isfinite(score)) return false;
  const double delta = bound_.ScoreError(score, absolute);
  PrefixStep step;
  if (score > max_) {
    if (keys_ > 0) {
      step.keep = std::exp(max_ - score);
      step.shift = 2 * bound_.u * (score - max_);
    }
    max_ = score;
    delta_ = delta;
  } else if (score == max_) {
    delta_ = std::max(delta_, delta);
  }
  step.weight = std::exp(score - max_);
  step.error = step.weight * (2 * bound_.u * (max_ - score) + delta);
  errors_ = step.keep * (errors_ + step.shift * weights_) + step.error;
  weights_ = step.keep * weights_ + step.weight;
  AddToPrefix(step, values, dim_, sums_.data());
  max_abs_score_ = std::max(max_abs_score_, std::abs(score));
  ++keys_;
  return true;
}

double AttentionPrefix::Result(double* r, double* e) const {
  const double common = bound_.KeysFactor(keys_) + 8 * bound_.u + bound_.value_error + delta_;
  const double inverse = 1.0 / weights_, each = common + bound_.p_roundoff;
  const double* const weighted = sums_.data();
  const double* const magnitudes = weighted + dim_;
  const double* const errors = magnitudes + dim_;
  const double* const unweighted = errors + dim_;
  for (std::int64_t c = 0; c < dim_; ++c) {
    r[c] = inverse * weighted[c];
    e[c] = inverse * (errors[c] + each * magnitudes[c] + bound_.p_flush * unweighted[c]);
  }
  return inverse * errors_ + common;
}

}  // namespace assay::kernels
