// Looks up cuDNN's functions in the library when it is first needed, so that Assay also runs where
// cuDNN is not installed. The environment variable ASSAY_CUDNN names another file.
//
// Only sources of this folder include this file, because it needs cuDNN's headers. Any thread may
// call it.
#ifndef ASSAY_KERNELS_PROVIDERS_CUDNN_API_H_
#define ASSAY_KERNELS_PROVIDERS_CUDNN_API_H_

#include <cudnn.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/providers/provider.h"

namespace assay::inline kernels::cudnn {

struct Api {
  decltype(cudnnGetVersion)* get_version = nullptr;
  decltype(cudnnGetErrorString)* error_string = nullptr;
  decltype(cudnnCreate)* create = nullptr;
  decltype(cudnnSetStream)* set_stream = nullptr;
  decltype(cudnnBackendCreateDescriptor)* descriptor_create = nullptr;
  decltype(cudnnBackendDestroyDescriptor)* descriptor_destroy = nullptr;
  decltype(cudnnBackendSetAttribute)* set = nullptr;
  decltype(cudnnBackendGetAttribute)* get = nullptr;
  decltype(cudnnBackendFinalize)* finalize = nullptr;
  decltype(cudnnBackendExecute)* execute = nullptr;
  decltype(cudnnCreateTensorDescriptor)* tensor_create = nullptr;
  decltype(cudnnDestroyTensorDescriptor)* tensor_destroy = nullptr;
  decltype(cudnnSetTensor4dDescriptorEx)* tensor_set = nullptr;
  decltype(cudnnSoftmaxForward)* softmax_forward = nullptr;
  std::string version;  // "9.19.0"
};

// Loads the library at the first call; later calls return the same answer. UNAVAILABLE with the
// loader's reason.
const absl::StatusOr<const Api*>& Load();

// The library's handle for the device that the process uses. The first call makes it.
absl::StatusOr<cudnnHandle_t> Handle();

// Translates a status of the library. UNIMPLEMENTED if the library does not support the
// combination; otherwise INTERNAL.
absl::Status StatusOf(cudnnStatus_t status, std::string_view what);

// The library's type of a format. UNIMPLEMENTED if no kernel here takes the format.
absl::StatusOr<cudnnDataType_t> TypeOf(DType format);

KernelEntry Entry(std::string_view op, std::string_view backend, std::vector<DType> dtypes,
                  KernelFactory make);

}  // namespace assay::kernels::cudnn

#endif  // ASSAY_KERNELS_PROVIDERS_CUDNN_API_H_
