#include "kernels/providers/cublaslt/api.h"

#include "kernels/providers/vendor/library.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::cublaslt {
namespace {

constexpr const char* kFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};

// 130002 is 13.0.2.
std::string VersionText(std::size_t v) { return Cat(v / 10000, ".", v / 100 % 100, ".", v % 100); }

absl::StatusOr<const Api*> LoadOnce() {
  absl::StatusOr<VendorLibrary> library = VendorLibrary::Open("cuBLASLt", "ASSAY_CUBLASLT", kFiles);
  if (!library.ok()) return library.status();
  static Api api;
  library->Find("cublasLtGetVersion", &api.get_version);
  library->Find("cublasLtGetStatusName", &api.status_name);
  library->Find("cublasLtCreate", &api.create);
  library->Find("cublasLtMatmul", &api.matmul);
  library->Find("cublasLtMatmulAlgoGetHeuristic", &api.heuristic);
  library->Find("cublasLtMatmulAlgoConfigGetAttribute", &api.config_get);
  library->Find("cublasLtMatmulAlgoCapGetAttribute", &api.capability_get);
  library->Find("cublasLtMatmulDescCreate", &api.desc_create);
  library->Find("cublasLtMatmulDescDestroy", &api.desc_destroy);
  library->Find("cublasLtMatmulDescSetAttribute", &api.desc_set);
  library->Find("cublasLtMatrixLayoutCreate", &api.layout_create);
  library->Find("cublasLtMatrixLayoutDestroy", &api.layout_destroy);
  library->Find("cublasLtMatrixLayoutSetAttribute", &api.layout_set);
  library->Find("cublasLtMatmulPreferenceCreate", &api.preference_create);
  library->Find("cublasLtMatmulPreferenceDestroy", &api.preference_destroy);
  library->Find("cublasLtMatmulPreferenceSetAttribute", &api.preference_set);
  if (absl::Status s = library->status(); !s.ok()) return s;
  api.version = VersionText(api.get_version());
  return &api;
}

}  // namespace

const absl::StatusOr<const Api*>& Load() {
  static const auto* const loaded = new absl::StatusOr<const Api*>(LoadOnce());
  return *loaded;
}

absl::StatusOr<cublasLtHandle_t> Handle() {
  static const auto* const made =
      new absl::StatusOr<cublasLtHandle_t>([]() -> absl::StatusOr<cublasLtHandle_t> {
        const absl::StatusOr<const Api*>& api = Load();
        if (!api.ok()) return api.status();
        cublasLtHandle_t handle = nullptr;
        const cublasStatus_t status = (*api)->create(&handle);
        if (status != CUBLAS_STATUS_SUCCESS) return StatusOf(status, "a handle");
        return handle;
      }());
  return *made;
}

absl::Status StatusOf(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const Api& api = **Load();
  const std::string said = Cat("cuBLASLt ", api.version, ", ", what, ": ", api.status_name(status));
  switch (status) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
    // The shapes were checked before, so the library does not have this combination.
    case CUBLAS_STATUS_INVALID_VALUE:
      return absl::UnimplementedError(said);
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(said);
    default:
      return absl::InternalError(said);
  }
}

}  // namespace assay::kernels::cublaslt
