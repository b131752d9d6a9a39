// The right output of a reduction and its allowance, for GPUs, in FP64. Slices along the last axis
// have a block each; the order of their sums is fixed by the launch. Other slices have a thread
// each, and neighbouring threads read neighbouring columns.
#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/reduce/reduce_reference_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

// By one thread.
ASSAY_DEVICE void Put(const ReduceReference& r, std::int64_t at, const SliceSum& sum) {
  r.value[at] = sum.sum;
  if (r.allowance != nullptr) r.allowance[at] = sum.Allowance(r.bound);
}
// By one thread. `element` gives x at an index of the slice.
template <class Element>
ASSAY_DEVICE void Put(const ReduceReference& r, std::int64_t at, const SliceLargest& largest,
                      const Element& element) {
  r.value[at] = r.kind == ReduceKind::kMax ? largest.value : static_cast<double>(largest.index);
  if (r.output == nullptr) return;
  const double named = static_cast<double>(r.output[at]);
  const std::int64_t index = IndexNamed(named, r.shape.length);
  if (index >= 0 && Ties(element(index), largest.value)) r.value[at] = named;
}

template <class Format>
ASSAY_GLOBAL void ReduceRowsReference(ReduceReference r) {
  ASSAY_SHARED(double, partial, kMostWaves);
  ASSAY_SHARED(long long, indices, kMostWaves);
  const std::int64_t length = r.shape.length;
  for (std::int64_t row = Block().x; row < r.shape.outer; row += GridExtent().x) {
    const auto x = [&](std::int64_t l) { return Format::At(r.x, r.input, row * r.ld + l); };
    if (r.kind == ReduceKind::kSum) {
      SliceSum sum;
      for (std::int64_t l = Thread().x; l < length; l += kRowThreads) sum.Take(x(l));
      sum.sum = BlockReduce<Sum>(sum.sum, partial, kRowThreads);
      sum.absolute = BlockReduce<Sum>(sum.absolute, partial, kRowThreads);
      if (Thread().x == 0) Put(r, row, sum);
      continue;
    }
    SliceLargest largest;
    // A thread without an element takes the first one, which changes nothing.
    largest.Take(x(0), 0);
    for (std::int64_t l = Thread().x; l < length; l += kRowThreads) largest.Take(x(l), l);
    const double most = BlockReduce<Largest>(largest.value, partial, kRowThreads);
    const long long index = Ties(largest.value, most) ? largest.index : length;
    largest.value = most;
    largest.index = BlockReduce<Smallest>(index, indices, kRowThreads);
    if (Thread().x == 0) Put(r, row, largest, x);
  }
}

template <class Format>
ASSAY_GLOBAL void ReduceColumnsReference(ReduceReference r) {
  const std::int64_t step = std::int64_t{GridExtent().x} * kRowThreads;
  for (std::int64_t at = std::int64_t{Block().x} * kRowThreads + Thread().x;
       at < r.shape.outer * r.shape.inner; at += step) {
    const std::int64_t begin = at / r.shape.inner * r.batch_stride + at % r.shape.inner;
    const auto x = [&](std::int64_t l) { return Format::At(r.x, r.input, begin + l * r.ld); };
    if (r.kind == ReduceKind::kSum) {
      SliceSum sum;
      for (std::int64_t l = 0; l < r.shape.length; ++l) sum.Take(x(l));
      Put(r, at, sum);
      continue;
    }
    SliceLargest largest;
    for (std::int64_t l = 0; l < r.shape.length; ++l) largest.Take(x(l), l);
    Put(r, at, largest, x);
  }
}

}  // namespace

ErrorCode LaunchReduceReference(const ReduceReference& r, Stream stream) {
  const Extent threads{kRowThreads, 1, 1};
  return ForElement(r.input, [&](auto element) {
    using Format = decltype(element);
    if (r.shape.inner == 1) {
      return Launch(ReduceRowsReference<Format>, RowGrid(r.shape.outer), threads, 0, stream, r);
    }
    const std::int64_t outputs = r.shape.outer * r.shape.inner;
    return Launch(ReduceColumnsReference<Format>,
                  RowGrid((outputs + kRowThreads - 1) / kRowThreads), threads, 0, stream, r);
  });
}

}  // namespace assay::kernels::gpu
