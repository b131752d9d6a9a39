// The constants of the arithmetic that an allowance is counted in, std-only: what
// planning makes of them on the host, GPU references take by value.
#ifndef ASSAY_KERNELS_OPS_COMMON_ARITHMETIC_H_
#define ASSAY_KERNELS_OPS_COMMON_ARITHMETIC_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// The arithmetic a kernel for inputs of a format is held to.
struct Arithmetic {
  double u = 0;           // roundoff of the accumulator
  double times = 1;       // 2 for fp64, whose FP64 reference errs as much as the kernel
  double min_normal = 0;  // of the accumulator: what a flushed exp or product loses at most
  double quantum = 0;     // its smallest subnormal; twice it for fp64, of which half is 0
};

Arithmetic ArithmeticOf(DType input);

// Allowance of sums of k products, from S = Σ|a||b|: min(8·√k·u, γ_(k+8))·S + k·η/2,
// with the smallest normal number for η/2 where the kernel flushes subnormals, and of a
// narrower accumulator its u and k/block for k in both factors.
struct ProductBound {
  double factor = 0;
  double underflow = 0;
  double times = 1;

  ASSAY_HOST_DEVICE double Allowance(double absolute) const {
    return times * (factor * absolute + underflow);
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_ARITHMETIC_H_
