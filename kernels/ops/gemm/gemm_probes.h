// The exact probes of a gemm: products of small whole numbers; scales, alpha and beta
// become powers of two, C, bias and channel_scale small whole numbers, so that the
// epilogue is exact too. gelu, which no result of is exact, becomes none.
//
// The significand probes (SignificandProbes): C and bias are 0, channel_scale is 1. Of 8-bit
// floats no factor is above 1, so that the largest number does not overflow.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_PROBES_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_PROBES_H_

#include <vector>

#include "kernels/ops/op.h"

namespace assay {

std::vector<KernelProbe> GemmProbes(const Case& c);

// What the operands beside A and B hold in an exact case.
void SetExactAddends(Plan& plan);

// What the operands of a significand probe hold.
void SetGemmSignificands(const Case& c, Plan& plan);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_PROBES_H_
