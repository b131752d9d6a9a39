// Which products cuBLASLt has: formats and layouts, from its documentation, so that a refusal
// says what is missing where the library says only "not supported".
//
// Free functions; thread-safe.
#ifndef ASSAY_KERNELS_PROVIDERS_CUBLASLT_FORMS_H_
#define ASSAY_KERNELS_PROVIDERS_CUBLASLT_FORMS_H_

#include <cublasLt.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/ops/op.h"

namespace assay::cublaslt {

struct Formats {
  cudaDataType_t in, c, out, scale;
  cublasComputeType_t compute;
};

// UNIMPLEMENTED, with the forms that there are, where these two are none.
absl::StatusOr<Formats> FormatsOf(DType in, DType out);

// 90 for "sm_90"; 0 where the device's architecture is not NVIDIA's.
int ArchitectureOf(const Device& device);

// OK, or UNIMPLEMENTED with the field that no such kernel takes. `architecture` 0: whatever
// may depend on it is left to the library.
absl::Status CheckProblem(const GemmProblem& p, const Plan& plan, int architecture);

}  // namespace assay::cublaslt

#endif  // ASSAY_KERNELS_PROVIDERS_CUBLASLT_FORMS_H_
