// The suspects of dequant_softmax.
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_SUSPECTS_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_SUSPECTS_H_

#include <vector>

#include "kernels/ops/suspect.h"

namespace assay {

std::vector<Suspect> DequantSoftmaxSuspects(const Scene& scene);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_SUSPECTS_H_
