#include "kernels/providers/cudnn/api.h"

#include <utility>

#include "kernels/providers/vendor/library.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::cudnn {
namespace {

constexpr const char* kFiles[] = {"libcudnn.so.9", "libcudnn.so"};
constexpr std::size_t kOldest = 90000;  // the oldest version with this graph API

// 91900 is 9.19.0.
std::string VersionText(std::size_t v) { return Cat(v / 10000, ".", v / 100 % 100, ".", v % 100); }

absl::StatusOr<const Api*> LoadOnce() {
  absl::StatusOr<VendorLibrary> library = VendorLibrary::Open("cuDNN", "ASSAY_CUDNN", kFiles);
  if (!library.ok()) return library.status();
  static Api api;
  library->Find("cudnnGetVersion", &api.get_version);
  library->Find("cudnnGetErrorString", &api.error_string);
  library->Find("cudnnCreate", &api.create);
  library->Find("cudnnSetStream", &api.set_stream);
  library->Find("cudnnBackendCreateDescriptor", &api.descriptor_create);
  library->Find("cudnnBackendDestroyDescriptor", &api.descriptor_destroy);
  library->Find("cudnnBackendSetAttribute", &api.set);
  library->Find("cudnnBackendGetAttribute", &api.get);
  library->Find("cudnnBackendFinalize", &api.finalize);
  library->Find("cudnnBackendExecute", &api.execute);
  library->Find("cudnnCreateTensorDescriptor", &api.tensor_create);
  library->Find("cudnnDestroyTensorDescriptor", &api.tensor_destroy);
  library->Find("cudnnSetTensor4dDescriptorEx", &api.tensor_set);
  library->Find("cudnnSoftmaxForward", &api.softmax_forward);
  if (absl::Status s = library->status(); !s.ok()) return s;
  const std::size_t version = api.get_version();
  api.version = VersionText(version);
  if (version < kOldest) {
    return absl::UnavailableError(
        Cat("cuDNN ", api.version, " (", library->file(), ") is older than 9"));
  }
  return &api;
}

}  // namespace

const absl::StatusOr<const Api*>& Load() {
  static const auto* const loaded = new absl::StatusOr<const Api*>(LoadOnce());
  return *loaded;
}

absl::StatusOr<cudnnHandle_t> Handle() {
  static const auto* const made =
      new absl::StatusOr<cudnnHandle_t>([]() -> absl::StatusOr<cudnnHandle_t> {
        const absl::StatusOr<const Api*>& api = Load();
        if (!api.ok()) return api.status();
        cudnnHandle_t handle = nullptr;
        const cudnnStatus_t status = (*api)->create(&handle);
        if (status != CUDNN_STATUS_SUCCESS) return StatusOf(status, "a handle");
        return handle;
      }());
  return *made;
}

absl::Status StatusOf(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  const Api& api = **Load();
  const std::string said = Cat("cuDNN ", api.version, ", ", what, ": ", api.error_string(status));
  switch (CUDNN_STATUS_CATEGORY(static_cast<int>(status))) {
    case CUDNN_STATUS_NOT_SUPPORTED:
    // The shapes were checked before, so the library does not have this combination.
    case CUDNN_STATUS_BAD_PARAM:
      return absl::UnimplementedError(said);
    default:
      return absl::InternalError(said);
  }
}

absl::StatusOr<cudnnDataType_t> TypeOf(DType format) {
  switch (format) {
    case DType::kF64:
      return CUDNN_DATA_DOUBLE;
    case DType::kF32:
    case DType::kTF32:
      return CUDNN_DATA_FLOAT;
    case DType::kF16:
      return CUDNN_DATA_HALF;
    case DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return absl::UnimplementedError(
          Cat("cuDNN's kernels here take fp64, fp32, tf32, fp16 and bf16, not ", Name(format)));
  }
}

KernelEntry Entry(std::string_view op, std::string_view backend, std::vector<DType> dtypes,
                  KernelFactory make) {
  const absl::StatusOr<const Api*>& api = Load();
  return KernelEntry{.op = op,
                     .provider = "cudnn",
                     .backend = backend,
                     .dtypes = std::move(dtypes),
                     .make = make,
                     .version = api.ok() ? (*api)->version : "",
                     .unavailable_reason = api.ok() ? "" : std::string(api.status().message())};
}

}  // namespace assay::kernels::cudnn
