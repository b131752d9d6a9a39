// Computes how far rounding usually moves a dequant_softmax, on host and device: as far as a
// softmax (softmax_deviation.h), and by the errors of its logits. std-only.
//
// A logit x = s·S with S = Σ a·w has σ_x² = s²·(u²/3·(V + 2·Q)) + u²/3·x², V as deviation.h has it:
// the sum, each product rounded once more by kernels that scale w first, and the rounding by s.
// Q = Σ (a·w)² is taken as 3·(Σ|a||w|)²/k, which is more than drawn data have.
//   σ²   = that of the softmax + r²·σ_x²
//   σ_β² = that of the softmax + Σ r²·σ_x², since l is off by Σ r·δ of its logits
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_DEVIATION_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_DEVIATION_H_

#include "kernels/numerics/deviation.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/softmax_deviation.h"

namespace assay::inline kernels {

struct DequantSoftmaxDeviation {
  SoftmaxDeviation softmax;
  double k = 1;  // products of a logit

  // σ_x² of a logit x, from its scale and Σ|a||w|.
  ASSAY_HOST_DEVICE double LogitVariance(double x, double scale, double absolute) const {
    constexpr double kSquares = 3;
    const double third = softmax.u * softmax.u / 3;
    const double sum = scale != 0 ? x / scale : 0.0;
    const double q = kSquares * absolute * absolute / k;
    return scale * scale * (SumVariance(k, softmax.u, sum, q) + third * q) + third * x * x;
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_DEVIATION_H_
