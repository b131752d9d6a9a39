// Division of many by one for the price of a multiplication and two fused ones each, in place
// of a division's ten operations and a branch. For kernels only.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_DIVISOR_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_DIVISOR_GPU_H_

#include "kernels/runtime/gpu/port.h"

namespace assay::gpu {

// s is from 1 to 2^32, or NaN, which every quotient then is; a is finite or NaN.
//
// a/s as a division rounds it: q, the product with the rounded 1/s, is within two ulp, so its
// remainder a − q·s is exact, and that times 1/s is what q lacks, to 2^-24 of it (P. Markstein,
// IBM J. Res. Dev. 34 (1990)). Were that too coarse it would show next to the middle between
// two numbers: a search of all s, with all a whose quotients lie there, found none.
// Quotients below 2^-100 may be 3/4 ulp off in place of 1/2, for their remainders may be less
// than the smallest number.
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

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_DIVISOR_GPU_H_
