// Splits the logical elements of a strided tensor into runs that lie together in memory, and copies
// them to and from packed storage.
//
// Offsets are in elements from the view's data pointer. e2m1 has two elements in a byte, so a run
// may begin or end in the middle of a byte. The other half of that byte is preserved, even if
// another thread writes it at the same time.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_STRIDED_H_
#define ASSAY_KERNELS_RUNTIME_CPU_STRIDED_H_

#include <algorithm>
#include <cstdint>

#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Calls f(offset, logical, n) for runs that cover [begin, end) in logical order.
template <class F>
void ForEachRun(const Extents& e, std::int64_t begin, std::int64_t end, F&& f) {
  if (begin >= end) return;
  if (e.dense()) {
    f(begin, begin, end - begin);
    return;
  }
  std::int64_t row = begin / e.cols;
  std::int64_t col = begin % e.cols;
  std::int64_t batch = row / e.rows;
  row %= e.rows;
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t n = std::min(e.cols - col, end - i);
    f(batch * e.batch_stride + row * e.ld + col, i, n);
    i += n;
    col = 0;
    if (++row == e.rows) {
      row = 0;
      ++batch;
    }
  }
}

// The offset of a logical element.
inline std::int64_t OffsetOf(const Extents& e, std::int64_t index) {
  const std::int64_t row = index / e.cols;
  return (row / e.rows) * e.batch_stride + (row % e.rows) * e.ld + index % e.cols;
}

// Copies `n` elements of storage. Positions are in elements.
void CopyElements(DType dtype, const void* src, std::int64_t src_at, void* dst, std::int64_t dst_at,
                  std::int64_t n);

// Packs logical elements [begin, begin + n) of `view` into `dst`, from element 0.
void PackElements(const TensorView& view, std::int64_t begin, std::int64_t n, void* dst);

// Writes codes, one in each byte, as e2m1 elements of `dst` from element `at`.
void StoreNibbles(const std::uint8_t* codes, void* dst, std::int64_t at, std::int64_t n);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_STRIDED_H_
