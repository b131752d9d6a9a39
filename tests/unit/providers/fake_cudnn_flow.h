// Graphs of several operations, products, pointwise ones and reductions, as they are
// described: one after the other, each tensor whole. What is virtual is held between them,
// rounded to its type.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_FLOW_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_FLOW_H_

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fake_cudnn_graph.h"
#include "kernels/numerics/convert.h"

namespace assay::fake {

using Place = std::array<std::int64_t, 4>;

// Elements of a tensor of four dimensions, the last one fastest.
struct Elements {
  std::vector<std::int64_t> dims;
  std::vector<double> all;

  // An extent of 1 stands for any index, and a dimension of fewer for groups of the larger.
  double At(const Place& at, const std::vector<std::int64_t>& of) const {
    std::size_t index = 0;
    for (std::size_t d = 0; d < 4; ++d) {
      const std::int64_t i = at[d] / (of[d] / dims[d]);
      index = index * static_cast<std::size_t>(dims[d]) + static_cast<std::size_t>(i);
    }
    return all[index];
  }
};

template <class F>
void ForEachPlace(const std::vector<std::int64_t>& dims, const F& f) {
  for (std::int64_t a = 0; a < dims[0]; ++a) {
    for (std::int64_t b = 0; b < dims[1]; ++b) {
      for (std::int64_t c = 0; c < dims[2]; ++c) {
        for (std::int64_t d = 0; d < dims[3]; ++d) f(Place{a, b, c, d});
      }
    }
  }
}

class Flow {
 public:
  explicit Flow(const std::map<std::int64_t, void*>& pointers) : pointers_(pointers) {}

  cudnnStatus_t Run(const std::vector<Shared>& operations) {
    for (const Shared& operation : operations) {
      switch (operation->type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
          Multiply(*operation);
          break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
          Reduce(*operation);
          break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
          Apply(*operation);
          break;
        default:
          return CUDNN_STATUS_NOT_SUPPORTED;
      }
      if (wrong_) return CUDNN_STATUS_BAD_PARAM;
    }
    return CUDNN_STATUS_SUCCESS;
  }

 private:
  struct Described {
    std::int64_t uid = 0;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    bool is_virtual = false;
    std::vector<std::int64_t> dims, strides;
  };

  Described DescribedBy(const Object& operation, int name) {
    const Object* t = operation.Of(name);
    Described d;
    if (t == nullptr || !t->finalized) {
      wrong_ = true;
      d.dims = d.strides = {1, 1, 1, 1};
      return d;
    }
    d.uid = t->One<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    d.type = t->One<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    d.is_virtual = t->One<unsigned char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
    d.dims = t->All<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    d.strides = t->All<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    return d;
  }

  static std::int64_t OffsetOf(const Described& d, const Place& at) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < 4; ++i) offset += at[i] * d.strides[i];
    return offset;
  }

  Elements Read(const Object& operation, int name) {
    const Described d = DescribedBy(operation, name);
    Elements e{d.dims, {}};
    const auto held = held_.find(d.uid);
    if (held != held_.end()) return held->second;
    const auto pointer = pointers_.find(d.uid);
    if (d.is_virtual || pointer == pointers_.end() || pointer->second == nullptr) {
      wrong_ = true;  // nobody wrote it
      e.all.assign(static_cast<std::size_t>(d.dims[0] * d.dims[1] * d.dims[2] * d.dims[3]), 0.0);
      return e;
    }
    ForEachPlace(d.dims, [&](const Place& at) {
      const std::int64_t offset = OffsetOf(d, at);
      e.all.push_back(d.type == CUDNN_DATA_INT32
                          ? static_cast<const std::int32_t*>(pointer->second)[offset]
                          : LoadDouble(FormatOf(d.type), pointer->second, offset));
    });
    return e;
  }

  template <class F>
  void Write(const Object& operation, int name, const F& value) {
    const Described d = DescribedBy(operation, name);
    if (wrong_) return;
    const bool whole = d.type == CUDNN_DATA_INT32 || d.type == CUDNN_DATA_BOOLEAN;
    if (d.is_virtual) {
      Elements e{d.dims, {}};
      ForEachPlace(d.dims, [&](const Place& at) {
        const double v = value(at, d.dims);
        if (whole && v != std::floor(v)) wrong_ = true;
        e.all.push_back(whole ? v : ToDouble(FormatOf(d.type), RoundToFormat(v, FormatOf(d.type))));
      });
      held_[d.uid] = std::move(e);
      return;
    }
    const auto pointer = pointers_.find(d.uid);
    if (whole || pointer == pointers_.end() || pointer->second == nullptr) {
      wrong_ = true;
      return;
    }
    ForEachPlace(d.dims, [&](const Place& at) {
      StoreBits(FormatOf(d.type), pointer->second, OffsetOf(d, at),
                RoundToFormat(value(at, d.dims), FormatOf(d.type)));
    });
  }

  void Multiply(const Object& o) {
    const Object* how = o.Of(CUDNN_ATTR_OPERATION_MATMUL_DESC);
    if (how == nullptr || !how->finalized ||
        how->One<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE) != CUDNN_DATA_FLOAT) {
      wrong_ = true;
      return;
    }
    const Elements a = Read(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const Elements b = Read(o, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    if (a.dims[3] != b.dims[2]) wrong_ = true;
    Write(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
          [&](const Place& at, const std::vector<std::int64_t>& of) {
            double sum = 0;
            for (std::int64_t k = 0; k < a.dims[3]; ++k) {
              sum += a.At({at[0], at[1], at[2], k}, {of[0], of[1], of[2], a.dims[3]}) *
                     b.At({at[0], at[1], k, at[3]}, {of[0], of[1], a.dims[3], of[3]});
            }
            return sum;
          });
  }

  void Reduce(const Object& o) {
    const Object* how = o.Of(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    if (how == nullptr || !how->finalized ||
        how->One<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE) != CUDNN_DATA_FLOAT) {
      wrong_ = true;
      return;
    }
    const auto op = how->One<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    const Elements x = Read(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    Write(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
          [&](const Place& at, const std::vector<std::int64_t>& of) {
            if (of[3] != 1) wrong_ = true;
            double found = op == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0.0;
            for (std::int64_t i = 0; i < x.dims[3]; ++i) {
              const double v = x.At({at[0], at[1], at[2], i}, x.dims);
              found = op == CUDNN_REDUCE_TENSOR_MAX ? std::max(found, v) : found + v;
            }
            return found;
          });
  }

  void Apply(const Object& o) {
    const Object* how = o.Of(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (how == nullptr || !how->finalized) {
      wrong_ = true;
      return;
    }
    const auto mode = how->One<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const auto axis = static_cast<std::size_t>(how->One<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS));
    const auto optional = [&](int name) {
      return o.Of(name) == nullptr ? Elements{{1, 1, 1, 1}, {0.0}} : Read(o, name);
    };
    const Elements x = Read(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const Elements b = optional(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const Elements t = optional(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    Write(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
          [&](const Place& at, const std::vector<std::int64_t>& of) -> double {
            const double left = x.At(at, of), right = b.At(at, of);
            switch (mode) {
              case CUDNN_POINTWISE_ADD:
                return left + right;
              case CUDNN_POINTWISE_SUB:
                return left - right;
              case CUDNN_POINTWISE_MUL:
                return left * right;
              case CUDNN_POINTWISE_DIV:
                return left / right;
              case CUDNN_POINTWISE_EXP:
                return std::exp(left);
              case CUDNN_POINTWISE_LOG:
                return std::log(left);
              case CUDNN_POINTWISE_CMP_GE:
                return left >= right ? 1 : 0;
              case CUDNN_POINTWISE_GEN_INDEX:
                return static_cast<double>(at[axis]);
              case CUDNN_POINTWISE_BINARY_SELECT:
                return t.At(at, of) != 0 ? left : right;
              default:
                wrong_ = true;
                return 0;
            }
          });
  }

  const std::map<std::int64_t, void*>& pointers_;
  std::map<std::int64_t, Elements> held_;  // what is virtual, by uid
  bool wrong_ = false;
};

}  // namespace assay::fake

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_FLOW_H_
