// What the attention kernels for GPUs share: which keys a query sees, and how a row of
// the output leaves. For kernels only.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_COMMON_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_COMMON_GPU_H_

#include "kernels/providers/builtin/attention_builtin_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::gpu {

template <class T>
ASSAY_DEVICE T NegativeInfinity() {
  return static_cast<T>(FloatOf(0xff800000U));
}

// Keys that causality leaves a query: [0, result).
ASSAY_DEVICE std::int64_t KeyLimit(const AttentionJob& a, std::int64_t query) {
  if (!a.causal) return a.kv_seq;
  const std::int64_t limit = query + 1 + a.kv_seq - a.seq;
  return limit < 0 ? 0 : limit < a.kv_seq ? limit : a.kv_seq;
}

// Of a query that exists.
ASSAY_DEVICE bool Sees(const AttentionJob& a, std::int64_t query, std::int64_t key) {
  return key < KeyLimit(a, query) && (a.mask == nullptr || a.mask[query * a.kv_seq + key] != 0);
}

// Which block of queries of which head a block takes: the longest rows of a causal head
// first, so that no long block comes last.
struct QueryBlock {
  std::int64_t head;
  std::int64_t query;  // first
};
ASSAY_DEVICE QueryBlock QueriesOf(const AttentionJob& a, int queries) {
  const std::int64_t blocks = (a.seq + queries - 1) / queries;
  const std::int64_t block = Block().x;
  return {block / blocks, (blocks - 1 - block % blocks) * queries};
}
inline Extent AttentionGrid(const AttentionJob& a, int queries) {
  return {static_cast<unsigned>(a.heads * ((a.seq + queries - 1) / queries)), 1, 1};
}

// scale_v·o/l of a query, as the output has it. l = 0 over keys that are there means that
// all their scores are −inf, which makes NaN by itself.
template <class T>
class Finisher {
 public:
  ASSAY_DEVICE_MEMBER Finisher(const AttentionJob& a, bool any_key, T l)
      : inverse_(any_key             ? T{1} / l
                 : a.masked_rows_nan ? NegativeInfinity<T>()
                                     : T{0}),
        value_scale_(static_cast<T>(a.value_scale)) {}
  // o is 0 where no key is there.
  ASSAY_DEVICE_MEMBER T operator()(T o) const { return o * inverse_ * value_scale_; }

 private:
  T inverse_;
  T value_scale_;
};

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_COMMON_GPU_H_
