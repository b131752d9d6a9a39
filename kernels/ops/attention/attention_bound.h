// Computes the parts of the allowance ε of an attention, on host and device. The formula is in
// attention_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_BOUND_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_BOUND_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

struct AttentionBound {
  double u = 0;
  Accumulator accumulator;  // of both sums of products
  double times = 1;
  double dim_factor = 0;     // c_d
  double p_roundoff = 0;     // u_P
  double p_flush = 0;        // w
  double divided_flush = 0;  // w_l
  double flush = 0;          // what sums of P·V lose to underflow
  double scale = 0;          // with scale_q and scale_k
  double value_scale = 1;    // scale_v
  double value_error = 0;    // of scale_v
  double score_error = 0;    // of scale_q and scale_k: their part of c_d

  // c_n
  ASSAY_HOST_DEVICE double KeysFactor(std::int64_t visible) const {
    return ProbableFactor(visible, accumulator);
  }
  // δ of a score s = scale·q·k with the absolute product |q|·|k|.
  ASSAY_HOST_DEVICE double ScoreError(double score, double absolute) const {
    return (dim_factor + score_error) * absolute * std::abs(scale) + u * std::abs(score);
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_BOUND_H_
