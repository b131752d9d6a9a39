// Lists the products that cuBLASLt has: formats and layouts, from its documentation. So a refusal
// says what is missing; the library itself says only "not supported".
//
// Free functions; any thread may call them.
#ifndef ASSAY_KERNELS_PROVIDERS_CUBLASLT_FORMS_H_
#define ASSAY_KERNELS_PROVIDERS_CUBLASLT_FORMS_H_

#include <cublasLt.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels::cublaslt {

struct Formats {
  cudaDataType_t in, c, out, scale;
  cublasComputeType_t compute;
};

// The library's types for a product. If it has no such product, UNIMPLEMENTED lists the products
// that it has.
absl::StatusOr<Formats> FormatsOf(DType in, DType out);

// 90 for "sm_90". 0 if the device's architecture is not NVIDIA's.
int ArchitectureOf(const Device& device);

// Checks a problem. UNIMPLEMENTED names the field that no kernel of the library supports. If
// `architecture` is 0, the library itself checks what depends on the architecture.
absl::Status CheckProblem(const GemmProblem& p, const Plan& plan, int architecture);

}  // namespace assay::kernels::cublaslt

#endif  // ASSAY_KERNELS_PROVIDERS_CUBLASLT_FORMS_H_
