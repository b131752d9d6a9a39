// A stand-in for libcudnn, on host memory: it holds the attributes that its descriptors are
// given, proposes engines of which most must not be taken, and computes convolution, norms
// and attention from dimensions and strides (fake_cudnn_graph.h), and graphs of products and
// pointwise operations (fake_cudnn_flow.h).
#include "fake_cudnn.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "fake_cudnn_flow.h"
#include "fake_cudnn_graph.h"
#include "kernels/numerics/convert.h"

namespace {

using assay::DType;
using assay::fake::CudnnSeen;
using assay::fake::FormatOf;
using assay::fake::Launch;
using assay::fake::Object;
using assay::fake::Shared;

CudnnSeen seen;
constexpr std::int64_t kWorkspace = 1 << 16;
constexpr std::array<std::int64_t, 6> kEngines = {
    assay::fake::kNondeterministic, assay::fake::kWinograd,    assay::fake::kDownConverting,
    assay::fake::kUnbuildable,      assay::fake::kTensorCores, assay::fake::kPlain};

Shared& At(cudnnBackendDescriptor_t d) { return *static_cast<Shared*>(d); }

std::size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    default:
      return 4;
  }
}

std::vector<cudnnBackendNumericalNote_t> NotesOf(std::int64_t engine) {
  switch (engine) {
    case assay::fake::kNondeterministic:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case assay::fake::kWinograd:
      return {CUDNN_NUMERICAL_NOTE_WINOGRAD};
    case assay::fake::kDownConverting:
      return {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    case assay::fake::kTensorCores:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    default:
      return {};
  }
}

// Whether the graph holds what the library was told to be without.
bool IsWithout(const Object& graph) {
  const auto& operations = graph.lists.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  return std::any_of(operations.begin(), operations.end(), [](const Shared& o) {
    return (seen.without_sdpa && o->type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) ||
           (seen.without_matmul && o->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  });
}

struct Image {
  cudnnDataType_t type;
  std::int64_t n, c, n_stride, c_stride;
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) CudnnSeen* fake_cudnn_seen() { return &seen; }

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                              : "CUDNN_STATUS_BAD_PARAM";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  ++seen.handles;
  *handle = reinterpret_cast<cudnnHandle_t>(&seen);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t stream) {
  seen.stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  ++seen.live_objects;
  if (type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) ++seen.packs;
  *descriptor = new Shared(new Object{.type = type, .values = {}, .objects = {}, .lists = {}});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  --seen.live_objects;
  delete static_cast<Shared*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  Object& o = *At(descriptor);
  if (o.finalized || values == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* others = static_cast<const cudnnBackendDescriptor_t*>(values);
    if (count < 1) return CUDNN_STATUS_BAD_PARAM;
    for (std::int64_t i = 0; i < count; ++i) {
      const Shared& other = At(others[i]);
      // What the library returned itself is final already.
      if (!other->finalized && other->engine == 0) return CUDNN_STATUS_BAD_PARAM;
      o.lists[name].push_back(other);
    }
    o.objects[name] = o.lists[name].front();
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* bytes = static_cast<const unsigned char*>(values);
  o.values[name].assign(bytes, bytes + static_cast<std::size_t>(count) * SizeOf(type));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Object& o = *At(descriptor);
  if (o.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR &&
      o.All<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS).size() !=
          o.All<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES).size()) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (o.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const Object* config = o.Of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (config == nullptr) return CUDNN_STATUS_BAD_PARAM;
    if (config->engine == assay::fake::kUnbuildable) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  o.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t requested,
                                       std::int64_t* count, void* values) {
  const Object& o = *At(descriptor);
  auto* others = static_cast<cudnnBackendDescriptor_t*>(values);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      if (!o.finalized) return CUDNN_STATUS_BAD_PARAM;
      const bool proposes =
          o.One<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A &&
          !IsWithout(*o.objects.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
      *count = proposes ? static_cast<std::int64_t>(kEngines.size()) : 0;
      for (std::int64_t i = 0; i < requested && i < *count; ++i) {
        Object& config = *At(others[i]);
        config.engine = kEngines[static_cast<std::size_t>(i)];
        config.objects[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
            o.objects.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      *count = 1;
      At(others[0])->engine = o.engine;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      *count = 1;
      *static_cast<std::int64_t*>(values) = o.engine;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const auto notes = NotesOf(o.engine);
      *count = static_cast<std::int64_t>(notes.size());
      if (requested < *count) return CUDNN_STATUS_BAD_PARAM;
      if (!notes.empty()) std::memcpy(values, notes.data(), notes.size() * sizeof notes[0]);
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      if (!o.finalized) return CUDNN_STATUS_BAD_PARAM;
      *count = 1;
      *static_cast<std::int64_t*>(values) = kWorkspace;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan_descriptor,
                                  cudnnBackendDescriptor_t pack_descriptor) {
  const Object &plan = *At(plan_descriptor), &pack = *At(pack_descriptor);
  auto* workspace = pack.One<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (!plan.finalized || !pack.finalized || workspace == nullptr) return CUDNN_STATUS_BAD_PARAM;
  std::memset(workspace, 0x5a, kWorkspace);
  const Object& config = *plan.Of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Object& graph = *config.Of(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  const std::vector<Shared>& operations = graph.lists.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const Object& operation = *operations.front();
  seen.engine = config.engine;
  ++seen.launches;
  Launch launch;
  const auto uids = pack.All<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (uids.size() != pointers.size()) return CUDNN_STATUS_BAD_PARAM;
  for (std::size_t i = 0; i < uids.size(); ++i) launch.pointers[uids[i]] = pointers[i];
  if (operations.size() > 1) return assay::fake::Flow(launch.pointers).Run(operations);
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return Convolve(operation, launch);
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return Normalise(operation, launch);
    case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR:
      return Attend(operation, launch);
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  ++seen.live_objects;
  *tensor = reinterpret_cast<cudnnTensorDescriptor_t>(new Image{});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  --seen.live_objects;
  delete reinterpret_cast<Image*>(tensor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                           int n, int c, int h, int w, int n_stride, int c_stride,
                                           int, int) {
  if (h != 1 || w != 1) return CUDNN_STATUS_NOT_SUPPORTED;
  *reinterpret_cast<Image*>(tensor) = Image{type, n, c, n_stride, c_stride};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t algorithm,
                                  cudnnSoftmaxMode_t mode, const void* alpha,
                                  const cudnnTensorDescriptor_t x_tensor, const void* x_data,
                                  const void* beta, const cudnnTensorDescriptor_t y_tensor,
                                  void* y_data) {
  const Image &x = *reinterpret_cast<const Image*>(x_tensor),
              &y = *reinterpret_cast<const Image*>(y_tensor);
  const bool wide = x.type == CUDNN_DATA_DOUBLE;
  const auto scalar = [&](const void* p) {
    return wide ? *static_cast<const double*>(p)
                : static_cast<double>(*static_cast<const float*>(p));
  };
  if (algorithm != CUDNN_SOFTMAX_ACCURATE || mode != CUDNN_SOFTMAX_MODE_CHANNEL ||
      scalar(alpha) != 1 || scalar(beta) != 0 || x.type != y.type) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  ++seen.launches;
  const DType t = FormatOf(x.type);
  for (std::int64_t r = 0; r < x.n; ++r) {
    const auto at = [&](std::int64_t c) {
      return assay::LoadDouble(t, x_data, r * x.n_stride + c * x.c_stride);
    };
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t c = 0; c < x.c; ++c) top = std::max(top, at(c));
    for (std::int64_t c = 0; c < x.c; ++c) sum += std::exp(at(c) - top);
    for (std::int64_t c = 0; c < x.c; ++c) {
      assay::StoreBits(t, y_data, r * y.n_stride + c * y.c_stride,
                       assay::RoundToFormat(std::exp(at(c) - top) / sum, t));
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
