// A stand-in for libcudnn, on host memory: it holds the attributes that its descriptors are
// given, proposes engines of which most must not be taken, and computes convolution, norms
// and attention from dimensions and strides in plain loops.
#include "fake_cudnn.h"

#include <cudnn.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "kernels/numerics/convert.h"

namespace {

using assay::DType;
using assay::fake::CudnnSeen;

CudnnSeen seen;
constexpr std::int64_t kWorkspace = 1 << 16;
constexpr std::array<std::int64_t, 6> kEngines = {
    assay::fake::kNondeterministic, assay::fake::kWinograd,    assay::fake::kDownConverting,
    assay::fake::kUnbuildable,      assay::fake::kTensorCores, assay::fake::kPlain};

struct Object;
using Shared = std::shared_ptr<Object>;

struct Object {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, std::vector<unsigned char>> values;
  std::map<int, Shared> objects;
  std::int64_t engine = 0;

  template <class T>
  std::vector<T> All(int name) const {
    const auto it = values.find(name);
    if (it == values.end()) return {};
    std::vector<T> all(it->second.size() / sizeof(T));
    std::memcpy(all.data(), it->second.data(), it->second.size());
    return all;
  }
  template <class T>
  T One(int name) const {
    const std::vector<T> all = All<T>(name);
    return all.empty() ? T{} : all[0];
  }
  const Object* Of(int name) const {
    const auto it = objects.find(name);
    return it == objects.end() ? nullptr : it->second.get();
  }
};

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

DType FormatOf(cudnnDataType_t t) {
  switch (t) {
    case CUDNN_DATA_DOUBLE:
      return DType::kF64;
    case CUDNN_DATA_FLOAT:
      return DType::kF32;
    case CUDNN_DATA_HALF:
      return DType::kF16;
    case CUDNN_DATA_BFLOAT16:
      return DType::kBF16;
    default:
      return DType::kUnspecified;
  }
}

// A tensor's descriptor with its data.
struct Tensor {
  DType dtype = DType::kUnspecified;
  std::vector<std::int64_t> dims, strides;
  void* data = nullptr;

  std::int64_t Offset(std::initializer_list<std::int64_t> at) const {
    std::int64_t offset = 0;
    std::size_t d = 0;
    for (const std::int64_t i : at) offset += i * strides[d++];
    return offset;
  }
  double Get(std::initializer_list<std::int64_t> at) const {
    return assay::LoadDouble(dtype, data, Offset(at));
  }
  void Set(std::initializer_list<std::int64_t> at, double value) const {
    assay::StoreBits(dtype, data, Offset(at), assay::RoundToFormat(value, dtype));
  }
};

struct Launch {
  std::map<std::int64_t, void*> pointers;
  bool complete = true;

  Tensor Of(const Object& operation, int name) {
    const Object* t = operation.Of(name);
    if (t == nullptr || t->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
      complete = false;
      return {};
    }
    const auto it = pointers.find(t->One<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    if (it == pointers.end() || it->second == nullptr) complete = false;
    Tensor tensor{FormatOf(t->One<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
                  t->All<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                  t->All<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
                  it == pointers.end() ? nullptr : it->second};
    if (tensor.dims.size() == 4) return tensor;
    if (tensor.dims.size() != 5) complete = false;
    return tensor;
  }
};

// Two dimensions as three, the outermost of extent 1.
void Deepen(Tensor* t) {
  if (t->dims.size() == 5) return;
  t->dims.insert(t->dims.begin() + 2, 1);
  t->strides.insert(t->strides.begin() + 2, 0);
}

cudnnStatus_t Convolve(const Object& op, Launch& launch) {
  Tensor x = launch.Of(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  Tensor w = launch.Of(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
  Tensor y = launch.Of(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
  const Object* conv = op.Of(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  const bool wide = x.dtype == DType::kF64;
  const double alpha =
      wide ? op.One<double>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA)
           : static_cast<double>(op.One<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA));
  if (!launch.complete || conv == nullptr || alpha != 1.0 ||
      conv->One<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) !=
          CUDNN_CROSS_CORRELATION ||
      conv->One<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) !=
          static_cast<std::int64_t>(x.dims.size()) - 2 ||
      conv->One<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) !=
          (wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const auto three = [&](int name, std::int64_t outer) {
    std::vector<std::int64_t> v = conv->All<std::int64_t>(name);
    if (v.size() == 2) v.insert(v.begin(), outer);
    return v;
  };
  const auto pad = three(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0);
  const auto stride = three(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1);
  const auto dilation = three(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1);
  for (Tensor* t : {&x, &w, &y}) Deepen(t);
  const std::int64_t per_group = y.dims[1] / (x.dims[1] / w.dims[1]);
  for (std::int64_t n = 0; n < y.dims[0]; ++n) {
    for (std::int64_t f = 0; f < y.dims[1]; ++f) {
      for (std::int64_t d = 0; d < y.dims[2]; ++d) {
        for (std::int64_t h = 0; h < y.dims[3]; ++h) {
          for (std::int64_t v = 0; v < y.dims[4]; ++v) {
            double sum = 0;
            for (std::int64_t c = 0; c < w.dims[1]; ++c) {
              for (std::int64_t i = 0; i < w.dims[2]; ++i) {
                for (std::int64_t j = 0; j < w.dims[3]; ++j) {
                  for (std::int64_t k = 0; k < w.dims[4]; ++k) {
                    const std::int64_t z = d * stride[0] - pad[0] + i * dilation[0];
                    const std::int64_t r = h * stride[1] - pad[1] + j * dilation[1];
                    const std::int64_t q = v * stride[2] - pad[2] + k * dilation[2];
                    if (z < 0 || r < 0 || q < 0 || z >= x.dims[2] || r >= x.dims[3] ||
                        q >= x.dims[4]) {
                      continue;
                    }
                    sum +=
                        x.Get({n, f / per_group * w.dims[1] + c, z, r, q}) * w.Get({f, c, i, j, k});
                  }
                }
              }
            }
            y.Set({n, f, d, h, v}, sum);
          }
        }
      }
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Normalise(const Object& op, Launch& launch) {
  const bool rms =
      op.One<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_FWD_MODE) == CUDNN_RMS_NORM;
  const Tensor x = launch.Of(op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  const Tensor y = launch.Of(op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
  const Tensor weight = launch.Of(op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC);
  const Tensor eps = launch.Of(op, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
  Tensor bias;
  if (!rms) bias = launch.Of(op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
  if (!launch.complete) return CUDNN_STATUS_BAD_PARAM;
  const std::int64_t cols = x.dims[1];
  for (std::int64_t r = 0; r < x.dims[0]; ++r) {
    double mean = 0, square = 0;
    for (std::int64_t c = 0; c < cols; ++c) mean += x.Get({r, c, 0, 0});
    mean = rms ? 0 : mean / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      const double d = x.Get({r, c, 0, 0}) - mean;
      square += d * d;
    }
    const double scale = 1 / std::sqrt(square / static_cast<double>(cols) + eps.Get({0, 0, 0, 0}));
    for (std::int64_t c = 0; c < cols; ++c) {
      y.Set({r, c, 0, 0}, (x.Get({r, c, 0, 0}) - mean) * scale * weight.Get({0, c, 0, 0}) +
                              (rms ? 0.0 : bias.Get({0, c, 0, 0})));
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Attend(const Object& op, Launch& launch) {
  const Tensor q = launch.Of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC);
  const Tensor k = launch.Of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC);
  const Tensor v = launch.Of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC);
  const Tensor o = launch.Of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC);
  const Tensor scale = launch.Of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC);
  if (!launch.complete) return CUDNN_STATUS_BAD_PARAM;
  const std::int64_t group = q.dims[1] / k.dims[1], keys = k.dims[2], dim = q.dims[3];
  std::vector<double> p(static_cast<std::size_t>(keys));
  for (std::int64_t b = 0; b < q.dims[0]; ++b) {
    for (std::int64_t h = 0; h < q.dims[1]; ++h) {
      for (std::int64_t i = 0; i < q.dims[2]; ++i) {
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double s = 0;
          for (std::int64_t d = 0; d < dim; ++d)
            s += q.Get({b, h, i, d}) * k.Get({b, h / group, j, d});
          p[static_cast<std::size_t>(j)] = s * scale.Get({0, 0, 0, 0});
          top = std::max(top, p[static_cast<std::size_t>(j)]);
        }
        for (double& s : p) sum += s = std::exp(s - top);
        for (std::int64_t d = 0; d < dim; ++d) {
          double out = 0;
          for (std::int64_t j = 0; j < keys; ++j) {
            out += p[static_cast<std::size_t>(j)] * v.Get({b, h / group, j, d});
          }
          o.Set({b, h, i, d}, out / sum);
        }
      }
    }
  }
  return CUDNN_STATUS_SUCCESS;
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

struct Image {
  cudnnDataType_t type;
  std::int64_t n, c, n_stride, c_stride;
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const CudnnSeen* fake_cudnn_seen() { return &seen; }

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
  *descriptor = new Shared(new Object{.type = type, .values = {}, .objects = {}});
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
    const Shared& other = At(*static_cast<const cudnnBackendDescriptor_t*>(values));
    // What the library returned itself is final already.
    if (count != 1 || (!other->finalized && other->engine == 0)) return CUDNN_STATUS_BAD_PARAM;
    o.objects[name] = other;
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
          o.One<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A;
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
  const Object& operation = *graph.Of(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  seen.engine = config.engine;
  ++seen.launches;
  Launch launch;
  const auto uids = pack.All<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (uids.size() != pointers.size()) return CUDNN_STATUS_BAD_PARAM;
  for (std::size_t i = 0; i < uids.size(); ++i) launch.pointers[uids[i]] = pointers[i];
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
