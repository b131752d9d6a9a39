// reduce for GPUs: the sum, the maximum or its index along one axis of x [outer, length, inner].
//
// Inputs are fp16, bf16 or fp32. Sums are FP32 in a tree of depth length/threads + log2(threads),
// or in the order of the slice, with one rounding to the output's format. That is within the bound
// of the reduce operator, which holds for any order. A NaN is the maximum, and of equal elements
// the first index is given. The order of a sum is fixed, so the same launch gives the same bits.
//
// A slice along the last axis has one block. Other slices have a thread each, so that neighbouring
// threads read neighbouring elements.
#include "kernels/providers/builtin/reduce_builtin_gpu.h"

#include "kernels/providers/builtin/store_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_DEVICE bool Beats(float v, float largest) {
  return v > largest || (v != v && largest == largest);
}
ASSAY_DEVICE bool Ties(float v, float largest) {
  return v == largest || (v != v && largest != largest);
}

ASSAY_DEVICE void PutIndex(const ReduceJob& j, std::int64_t at, std::int64_t index) {
  static_cast<std::int32_t*>(j.y)[at] = static_cast<std::int32_t>(index);
}

template <class In>
ASSAY_GLOBAL void ReduceRows(ReduceJob j) {
  ASSAY_SHARED(float, partial, kMostWaves);
  ASSAY_SHARED(int, indices, kMostWaves);
  const std::int64_t row = Block().x;
  const std::int64_t length = j.shape.length;
  const auto* x = static_cast<const typename In::Store*>(j.x) + row * j.ld;
  if (j.kind == ReduceKind::kSum) {
    float sum = 0.0F;
    for (std::int64_t l = Thread().x; l < length; l += kReduceThreads) sum += In::Load(x[l]);
    sum = BlockReduce<Sum>(sum, partial, kReduceThreads);
    if (Thread().x == 0) StoreAs(j.out, j.y, row, sum);
    return;
  }
  // A thread without an element keeps the first one.
  float largest = In::Load(x[0]);
  std::int64_t index = 0;
  for (std::int64_t l = Thread().x; l < length; l += kReduceThreads) {
    const float v = In::Load(x[l]);
    if (!Beats(v, largest)) continue;
    largest = v;
    index = l;
  }
  const float most = BlockReduce<Largest>(largest, partial, kReduceThreads);
  if (j.kind == ReduceKind::kMax) {
    if (Thread().x == 0) StoreAs(j.out, j.y, row, most);
    return;
  }
  const int none = static_cast<int>(length - 1);
  const int found = Ties(largest, most) ? static_cast<int>(index) : none;
  const int first = BlockReduce<Smallest>(found, indices, kReduceThreads);
  if (Thread().x == 0) PutIndex(j, row, first);
}

template <class In>
ASSAY_GLOBAL void ReduceColumns(ReduceJob j) {
  const std::int64_t at = std::int64_t{Block().x} * kReduceThreads + Thread().x;
  if (at >= j.shape.outer * j.shape.inner) return;
  const auto* x = static_cast<const typename In::Store*>(j.x) +
                  at / j.shape.inner * j.batch_stride + at % j.shape.inner;
  float value = In::Load(x[0]);
  std::int64_t index = 0;
  for (std::int64_t l = 1; l < j.shape.length; ++l) {
    const float v = In::Load(x[l * j.ld]);
    if (j.kind == ReduceKind::kSum) {
      value += v;
    } else if (Beats(v, value)) {
      value = v;
      index = l;
    }
  }
  if (j.kind == ReduceKind::kArgmax) {
    PutIndex(j, at, index);
  } else {
    StoreAs(j.out, j.y, at, value);
  }
}

template <class In>
ErrorCode LaunchFor(const ReduceJob& j, Stream stream) {
  const Extent block{kReduceThreads, 1, 1};
  if (j.shape.inner == 1) {
    const Extent grid{static_cast<unsigned>(j.shape.outer), 1, 1};
    return Launch(ReduceRows<In>, grid, block, 0, stream, j);
  }
  const std::int64_t outputs = j.shape.outer * j.shape.inner;
  const Extent grid{static_cast<unsigned>((outputs + kReduceThreads - 1) / kReduceThreads), 1, 1};
  return Launch(ReduceColumns<In>, grid, block, 0, stream, j);
}

}  // namespace

ErrorCode LaunchReduce(const ReduceJob& j, Stream stream) {
  switch (j.in) {
    case DType::kF16:
      return LaunchFor<Half>(j, stream);
    case DType::kBF16:
      return LaunchFor<BFloat>(j, stream);
    default:
      return LaunchFor<Float32>(j, stream);
  }
}

}  // namespace assay::kernels::gpu
