// Looks up cuBLASLt's functions in the library when it is first needed, so that Assay also runs
// where cuBLASLt is not installed. The environment variable ASSAY_CUBLASLT names another file.
//
// Only sources of this folder include this file, because it needs the toolkit's headers. Any thread
// may call it.
#ifndef ASSAY_KERNELS_PROVIDERS_CUBLASLT_API_H_
#define ASSAY_KERNELS_PROVIDERS_CUBLASLT_API_H_

#include <cublasLt.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::inline kernels::cublaslt {

struct Api {
  decltype(cublasLtGetVersion)* get_version = nullptr;
  decltype(cublasLtGetStatusName)* status_name = nullptr;
  decltype(cublasLtCreate)* create = nullptr;
  decltype(cublasLtMatmul)* matmul = nullptr;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic = nullptr;
  decltype(cublasLtMatmulAlgoConfigGetAttribute)* config_get = nullptr;
  decltype(cublasLtMatmulAlgoCapGetAttribute)* capability_get = nullptr;
  decltype(cublasLtMatmulDescCreate)* desc_create = nullptr;
  decltype(cublasLtMatmulDescDestroy)* desc_destroy = nullptr;
  decltype(cublasLtMatmulDescSetAttribute)* desc_set = nullptr;
  decltype(cublasLtMatrixLayoutCreate)* layout_create = nullptr;
  decltype(cublasLtMatrixLayoutDestroy)* layout_destroy = nullptr;
  decltype(cublasLtMatrixLayoutSetAttribute)* layout_set = nullptr;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create = nullptr;
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy = nullptr;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set = nullptr;
  std::string version;  // "13.0.2"
};

// Loads the library at the first call; later calls return the same answer. UNAVAILABLE with the
// loader's reason.
const absl::StatusOr<const Api*>& Load();

// The library's handle for the device that the process uses. The first call makes it.
absl::StatusOr<cublasLtHandle_t> Handle();

// Translates a status of the library. UNIMPLEMENTED if the library does not support the
// combination, RESOURCE_EXHAUSTED if it has no memory, INTERNAL for anything else. The message is
// "cuBLASLt 13.0.2, <what>: CUBLAS_STATUS_NOT_SUPPORTED".
absl::Status StatusOf(cublasStatus_t status, std::string_view what);

}  // namespace assay::kernels::cublaslt

#endif  // ASSAY_KERNELS_PROVIDERS_CUBLASLT_API_H_
