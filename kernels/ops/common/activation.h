// Activations, on host and device: the last step of a gemm, or an operator of their own. std-only.
#ifndef ASSAY_KERNELS_OPS_COMMON_ACTIVATION_H_
#define ASSAY_KERNELS_OPS_COMMON_ACTIVATION_H_

#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kGeluTanh };

ASSAY_HOST_DEVICE constexpr bool IsGelu(Activation activation) {
  return activation == Activation::kGelu || activation == Activation::kGeluTanh;
}
// Above it act(x) is x, to within 2^-29 of it.
ASSAY_HOST_DEVICE constexpr double LinearAbove(Activation activation) {
  return activation == Activation::kNone ? -HUGE_VAL : IsGelu(activation) ? 6 : 0;
}

// act(x) in FP64, without cancellation.
ASSAY_HOST_DEVICE inline double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kRelu:
      return x < 0.0 ? 0.0 : x;  // NaN stays
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh: {
      const double z = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1.0 + std::exp(-2.0 * z));
    }
    case Activation::kNone:
      break;
  }
  return x;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_ACTIVATION_H_
