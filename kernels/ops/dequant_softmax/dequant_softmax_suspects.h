// The suspects of dequant_softmax.
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_SUSPECTS_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_SUSPECTS_H_

#include <vector>

#include "kernels/ops/suspect.h"

namespace assay::inline kernels {

std::vector<Suspect> DequantSoftmaxSuspects(const Scene& scene);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_SUSPECTS_H_
