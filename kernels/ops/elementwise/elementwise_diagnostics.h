// What elementwise knows of wrong results of its kernels. One stateless object.
#ifndef ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_DIAGNOSTICS_H_
#define ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_DIAGNOSTICS_H_

#include "kernels/ops/diagnostics.h"

namespace assay {

const Diagnostics& ElementwiseDiagnostics();

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_DIAGNOSTICS_H_
