// What gemm knows of wrong results of its kernels. One stateless object.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_DIAGNOSTICS_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_DIAGNOSTICS_H_

#include <vector>

#include "kernels/ops/diagnostics.h"

namespace assay {

const Diagnostics& GemmDiagnostics();

std::vector<Suspect> GemmSuspects(const Scene& scene);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_DIAGNOSTICS_H_
