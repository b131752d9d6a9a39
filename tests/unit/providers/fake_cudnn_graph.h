// Computes what a graph of cuDNN describes, in plain loops over dimensions and strides. The tests'
// stand-in for libcudnn uses it.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_GRAPH_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "kernels/numerics/convert.h"

namespace assay::fake {

struct Object;
using Shared = std::shared_ptr<Object>;

struct Object {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, std::vector<unsigned char>> values;
  std::map<int, Shared> objects;             // the first of each
  std::map<int, std::vector<Shared>> lists;  // all of each
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

inline DType FormatOf(cudnnDataType_t t) {
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
    return LoadDouble(dtype, data, Offset(at));
  }
  void Set(std::initializer_list<std::int64_t> at, double value) const {
    StoreBits(dtype, data, Offset(at), RoundToFormat(value, dtype));
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
inline void Deepen(Tensor* t) {
  if (t->dims.size() == 5) return;
  t->dims.insert(t->dims.begin() + 2, 1);
  t->strides.insert(t->strides.begin() + 2, 0);
}

inline cudnnStatus_t Convolve(const Object& op, Launch& launch) {
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

inline cudnnStatus_t Normalise(const Object& op, Launch& launch) {
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

inline cudnnStatus_t Attend(const Object& op, Launch& launch) {
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

}  // namespace assay::fake

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_GRAPH_H_
