// The exact cases of a convolution: inputs and weights of small whole numbers; and the significand
// probes, where filters have one power of two each, or images have them so far apart that no filter
// covers two. If the output's format goes beyond what fp16 holds, so do the outputs of
// exact-significand-x. nan: all pixels are NaN, and so must all of the output be.
#ifndef ASSAY_KERNELS_OPS_CONV_CONV_PROBES_H_
#define ASSAY_KERNELS_OPS_CONV_CONV_PROBES_H_

#include <vector>

#include "kernels/ops/op.h"

namespace assay::inline kernels {

// `plan` says what the kernel declares.
std::vector<KernelProbe> ConvProbes(const Case& c, const Plan& plan);

// What the operands of a significand probe hold.
void SetConvSignificands(const Case& c, Plan& plan);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CONV_CONV_PROBES_H_
