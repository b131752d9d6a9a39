// Describes a tensor in device memory: three logical extents with strides. Fills, guards and
// comparisons see every operand of every operator in this form. An operator flattens its own axes
// (heads, channels, …) into rows.
//
// The logical order is batch-major, then row-major. Element (b, r, c) lies at data + b*batch_stride
// + r*ld + c, in elements. Elements between cols and ld are padding: they are guarded, and they are
// not logical elements.
//
// A view owns nothing; the arena owns the memory.
#ifndef ASSAY_KERNELS_RUNTIME_TENSOR_H_
#define ASSAY_KERNELS_RUNTIME_TENSOR_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"

namespace assay::inline kernels {

struct Extents {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::int64_t ld = 1;            // [elements] row stride, >= cols
  std::int64_t batch_stride = 1;  // [elements] >= (rows - 1) * ld + cols if batch > 1

  // The number of logical elements.
  std::int64_t count() const { return batch * rows * cols; }
  // Elements from the first to the end of the last, with the padding between.
  std::int64_t span() const {
    return count() == 0 ? 0 : (batch - 1) * batch_stride + (rows - 1) * ld + cols;
  }
  // Whether there is no padding, so that the storage order is the logical order.
  bool dense() const {
    return (rows == 1 || ld == cols) && (batch == 1 || batch_stride == rows * cols);
  }
  static Extents Dense(std::int64_t batch, std::int64_t rows, std::int64_t cols) {
    return Extents{batch, rows, cols, cols, rows * cols};
  }
};

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kUnspecified;
  Extents extents;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  std::int64_t count() const { return extents.count(); }
  // Bytes from the first element to the end of the last.
  std::int64_t bytes() const { return StorageBytes(dtype, extents.span()); }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_TENSOR_H_
