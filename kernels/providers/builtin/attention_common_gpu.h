// Shared code of the attention kernels for GPUs: the keys that a query sees, and the output of a
// row. For kernels only.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_COMMON_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_COMMON_GPU_H_

#include "kernels/providers/builtin/attention_builtin_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

template <class T>
ASSAY_DEVICE T NegativeInfinity() {
  return static_cast<T>(FloatOf(0xff800000U));
}

// The number of keys that causality allows a query: keys [0, result).
ASSAY_DEVICE std::int64_t KeyLimit(const AttentionJob& a, std::int64_t query) {
  if (!a.causal) return a.kv_seq;
  const std::int64_t limit = query + 1 + a.kv_seq - a.seq;
  return limit < 0 ? 0 : limit < a.kv_seq ? limit : a.kv_seq;
}

// Whether a query sees a key. The query must exist.
ASSAY_DEVICE bool Sees(const AttentionJob& a, std::int64_t query, std::int64_t key) {
  return key < KeyLimit(a, query) && (a.mask == nullptr || a.mask[query * a.kv_seq + key] != 0);
}

// The queries that a block takes. The longest rows of a causal head come first, so that no long
// block comes last.
struct QueryBlock {
  std::int64_t head;
  std::int64_t query;  // the first query
};
ASSAY_DEVICE QueryBlock QueriesOf(const AttentionJob& a, int queries) {
  const std::int64_t blocks = (a.seq + queries - 1) / queries;
  const std::int64_t block = Block().x;
  return {block / blocks, (blocks - 1 - block % blocks) * queries};
}
inline Extent AttentionGrid(const AttentionJob& a, int queries) {
  return {static_cast<unsigned>(a.heads * ((a.seq + queries - 1) / queries)), 1, 1};
}

// Computes scale_v·o/l of a query in the output's form. If keys are there and l = 0, all their
// scores are −inf, and 0·(1/0) gives NaN.
template <class T>
class Finisher {
 public:
  ASSAY_DEVICE_MEMBER Finisher(const AttentionJob& a, bool any_key, T l)
      : inverse_(any_key             ? T{1} / l
                 : a.masked_rows_nan ? NegativeInfinity<T>()
                                     : T{0}),
        value_scale_(static_cast<T>(a.value_scale)) {}
  // o is 0 if no key is there.
  ASSAY_DEVICE_MEMBER T operator()(T o) const { return o * inverse_ * value_scale_; }

 private:
  T inverse_;
  T value_scale_;
};

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_COMMON_GPU_H_
