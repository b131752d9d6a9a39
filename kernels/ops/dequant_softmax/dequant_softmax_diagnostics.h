// What dequant_softmax knows of wrong results of its kernels. One stateless object.
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_DIAGNOSTICS_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_DIAGNOSTICS_H_

#include <vector>

#include "kernels/ops/diagnostics.h"

namespace assay {

const Diagnostics& DequantSoftmaxDiagnostics();

std::vector<Suspect> DequantSoftmaxSuspects(const Scene& scene);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_DIAGNOSTICS_H_
