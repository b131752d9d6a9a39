// The exact probes of a convolution: inputs and weights of small whole numbers.
#ifndef ASSAY_KERNELS_OPS_CONV_CONV_PROBES_H_
#define ASSAY_KERNELS_OPS_CONV_CONV_PROBES_H_

#include <vector>

#include "kernels/ops/op.h"

namespace assay {

std::vector<KernelProbe> ConvProbes(const Case& c);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_CONV_CONV_PROBES_H_
