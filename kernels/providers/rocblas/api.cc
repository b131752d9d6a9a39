#include "kernels/providers/rocblas/api.h"

#include <array>

#include "kernels/providers/vendor/library.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::rocblas {
namespace {

constexpr const char* kFiles[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so"};

absl::StatusOr<const Api*> LoadOnce() {
  absl::StatusOr<VendorLibrary> library = VendorLibrary::Open("rocBLAS", "ASSAY_ROCBLAS", kFiles);
  if (!library.ok()) return library.status();
  static Api api;
  library->Find("rocblas_create_handle", &api.create_handle);
  library->Find("rocblas_set_stream", &api.set_stream);
  library->Find("rocblas_set_atomics_mode", &api.set_atomics_mode);
  library->Find("rocblas_set_workspace", &api.set_workspace);
  library->Find("rocblas_get_version_string", &api.get_version);
  library->Find("rocblas_status_to_string", &api.status_to_string);
  library->Find("rocblas_gemm_ex", &api.gemm_ex);
  library->Find("rocblas_gemm_strided_batched_ex", &api.gemm_strided_batched_ex);
  if (absl::Status s = library->status(); !s.ok()) return s;
  std::array<char, 256> text = {};
  if (api.get_version(text.data(), text.size()) == Status::kSuccess) api.version = text.data();
  return &api;
}

}  // namespace

const absl::StatusOr<const Api*>& Load() {
  static const auto* const loaded = new absl::StatusOr<const Api*>(LoadOnce());
  return *loaded;
}

absl::StatusOr<Handle> SharedHandle() {
  static const auto* const made = new absl::StatusOr<Handle>([]() -> absl::StatusOr<Handle> {
    const absl::StatusOr<const Api*>& api = Load();
    if (!api.ok()) return api.status();
    Handle handle = nullptr;
    Status status = (*api)->create_handle(&handle);
    if (status == Status::kSuccess) {
      status = (*api)->set_atomics_mode(handle, Atomics::kNotAllowed);
    }
    if (absl::Status s = StatusOf(status, "a handle"); !s.ok()) return s;
    return handle;
  }());
  return *made;
}

absl::Status UseWorkspace(Handle handle, void* data, std::size_t bytes) {
  static void* used_data = nullptr;
  static std::size_t used_bytes = 0;
  if (data == used_data && bytes == used_bytes) return absl::OkStatus();
  absl::Status s = StatusOf((*Load())->set_workspace(handle, data, bytes), "the workspace");
  if (s.ok()) {
    used_data = data;
    used_bytes = bytes;
  }
  return s;
}

absl::Status StatusOf(Status status, std::string_view what) {
  if (status == Status::kSuccess || status == Status::kPerfDegraded) return absl::OkStatus();
  const Api& api = **Load();
  const std::string said =
      Cat("rocBLAS ", api.version, ", ", what, ": ", api.status_to_string(status));
  switch (status) {
    // The shapes were checked before, so the library does not have this combination.
    case Status::kNotImplemented:
    case Status::kInvalidSize:
    case Status::kInvalidValue:
      return absl::UnimplementedError(said);
    case Status::kMemoryError:
      return absl::ResourceExhaustedError(said);
    default:
      return absl::InternalError(said);
  }
}

}  // namespace assay::kernels::rocblas
