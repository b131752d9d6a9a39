// The suspects of gemm.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_SUSPECTS_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_SUSPECTS_H_

#include <vector>

#include "kernels/ops/suspect.h"

namespace assay::inline kernels {

std::vector<Suspect> GemmSuspects(const Scene& scene);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_SUSPECTS_H_
