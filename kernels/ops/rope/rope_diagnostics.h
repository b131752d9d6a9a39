// What rope knows of wrong results of its kernels. One stateless object.
#ifndef ASSAY_KERNELS_OPS_ROPE_ROPE_DIAGNOSTICS_H_
#define ASSAY_KERNELS_OPS_ROPE_ROPE_DIAGNOSTICS_H_

#include "kernels/ops/diagnostics.h"

namespace assay {

const Diagnostics& RopeDiagnostics();

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_ROPE_ROPE_DIAGNOSTICS_H_
