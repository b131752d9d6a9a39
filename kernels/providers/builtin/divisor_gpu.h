// Divides many numbers by the same number. Each division costs a multiplication and two fused ones,
// instead of ten operations and a branch. For kernels only.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_DIVISOR_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_DIVISOR_GPU_H_

#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

// s must be from 1 to 2^32, or NaN; then every quotient is NaN. a is finite or NaN.
//
// The result is a/s, rounded as a division rounds it. q, the product with the rounded 1/s, is
// within two ulp, so its remainder a − q·s is exact. The remainder times 1/s is the error of q, to
// 2^-24 of it (P. Markstein, IBM J. Res. Dev. 34 (1990)). An error of this would show next to the
// middle between two numbers. A search of all s, with all a whose quotients lie there, found none.
// Quotients below 2^-100 may be wrong by 3/4 ulp instead of 1/2, because their remainders may be
// below the smallest number.
class Divisor {
 public:
  ASSAY_DEVICE_MEMBER explicit Divisor(float s) : s_(s), inverse_(1.0F / s) {}
  ASSAY_DEVICE_MEMBER float Divide(float a) const {
    const float q = a * inverse_;
    return Fma(Fma(-q, s_, a), inverse_, q);
  }

 private:
  float s_;
  float inverse_;
};

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_DIVISOR_GPU_H_
