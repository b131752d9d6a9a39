// Makes the exact cases of a gemm: products of small whole numbers. Scales, alpha and beta become
// powers of two, and C, bias and channel_scale small whole numbers, so that the epilogue is exact
// too. No result of gelu is exact, so these cases use no activation in its place.
//
// The significand probes (SignificandProbes): C and bias are 0, channel_scale is 1. Of 8-bit
// floats no factor is above 1, so that the largest number does not overflow. Other formats read
// small numbers of one operand and large ones of the other (SignificandData). If the output's
// format goes beyond what fp16 holds, so do the outputs of exact-significand-b.
//
// A kernel may be made for fields that the exact cases change. If they change one, two probes of
// one product take the place of the significand probes: significand-a and significand-b. Their
// problem is the case's own, with C, bias and channel_scale. Each sum is one product, as there; the
// bound judges the output, with k = 1. So a lost bit of an operand, another activation or a lost
// addend shows at every length of a sum. The products cover the range where GELU is curved. C is
// near 1/beta, so that its share shows whatever beta is. A third one, sparse-signs, has long sums,
// which show a product that is lost in many elements: sums of ±1 and 0, with C and bias 0. The
// bound judges it, too.
//
// nan: each row of A has a NaN, which the output must keep. There is none with relu: a kernel may
// take max(NaN, 0) for 0.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_PROBES_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_PROBES_H_

#include <vector>

#include "kernels/ops/op.h"

namespace assay::inline kernels {

std::vector<KernelProbe> GemmProbes(const Case& c, const Plan& plan);

// Whether a case is a probe of one product.
inline bool IsOneProduct(const Case& c) { return c.significand >= 0 && !c.exact; }

// What the operands beside A and B hold in an exact case.
void SetExactAddends(const Case& c, Plan& plan);

// What the operands of a significand probe hold.
void SetGemmSignificands(const Case& c, Plan& plan);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_PROBES_H_
