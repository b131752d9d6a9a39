// What layer_norm knows of wrong results of its kernels. One stateless object.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_DIAGNOSTICS_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_DIAGNOSTICS_H_

#include "kernels/ops/diagnostics.h"

namespace assay {

const Diagnostics& LayerNormDiagnostics();

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_DIAGNOSTICS_H_
