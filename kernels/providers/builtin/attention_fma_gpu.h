// Attention with plain multiply-adds for GPUs, in fp32 and fp64. The weights are not rounded to
// another format.
//
// A block of 256 threads takes kQueries queries of a head. 256/kQueries neighbouring threads share
// a query. Together they take the keys of a block of keys in turn, and the columns of the output in
// turn. kKeys keys, and then kKeys values, are in shared memory at a time. Sums are fmas in
// ascending order. A query's sum of weights is a butterfly over its threads. For kernels only.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_FMA_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_FMA_GPU_H_

#include "kernels/providers/builtin/attention_common_gpu.h"

namespace assay::inline kernels::gpu {

inline constexpr int kFmaThreads = 256;

template <class T>
struct FmaBlocks {
  // These numbers let queries and keys of the largest head fit into shared memory.
  static constexpr int kQueries = sizeof(T) == 8 ? 16 : 32;
  static constexpr int kKeys = kQueries;
  static constexpr int kShare = kFmaThreads / kQueries;  // threads of a query
  static constexpr int kColumns = static_cast<int>(kMaxAttentionDim) / kShare;

  // A row has one element more, which keeps rows in different banks.
  static std::size_t SharedBytes(std::int64_t dim) {
    return sizeof(T) *
           (static_cast<std::size_t>(kQueries + kKeys) * static_cast<std::size_t>(dim + 1) +
            kQueries * (kKeys + 1));
  }
};

// Reads rows [0, kRows) of `from` into shared memory. Only `rows` of them exist; the rest are
// zeros.
template <class T, int kRows>
ASSAY_DEVICE void ReadRows(const T* from, std::int64_t rows, std::int64_t dim, T* to) {
  for (std::int64_t e = Thread().x; e < kRows * dim; e += kFmaThreads) {
    to[e / dim * (dim + 1) + e % dim] = e / dim < rows ? from[e] : T{0};
  }
}

// What a thread keeps of its query: the largest score, the thread's part of the weights' sum, and
// whether one of its keys is seen.
template <class T>
struct FmaSums {
  T m = NegativeInfinity<T>();
  T l = 0;
  bool any_key = false;
};

// The weights of a block of keys, from the rows of a query and of the keys. Returns what sums of
// earlier blocks are to be multiplied by.
template <class T>
ASSAY_DEVICE T WeighKeys(const AttentionJob& a, std::int64_t query, std::int64_t key0,
                         const T* query_row, const T* keys, T* weights, FmaSums<T>& sums) {
  using Blocks = FmaBlocks<T>;
  constexpr int kShare = Blocks::kShare;
  const auto pitch = static_cast<int>(a.dim) + 1;
  const int part = static_cast<int>(Thread().x) % kShare;
  T largest = NegativeInfinity<T>();
  T scores[Blocks::kKeys / kShare];
  ASSAY_UNROLL
  for (int i = 0; i < Blocks::kKeys / kShare; ++i) {
    const int key = part + i * kShare;
    T sum = 0;
    for (int c = 0; c < static_cast<int>(a.dim); ++c) {
      sum = Fma(query_row[c], keys[key * pitch + c], sum);
    }
    const bool sees = query < a.seq && Sees(a, query, key0 + key);
    sums.any_key = sums.any_key || sees;
    scores[i] = sees ? Product(sum, static_cast<T>(a.scale)) : NegativeInfinity<T>();
    largest = MaxNumber(largest, scores[i]);
  }
  for (int by = kShare / 2; by > 0; by /= 2) {
    largest = MaxNumber(largest, ShuffleXor(largest, by));
  }
  largest = MaxNumber(largest, sums.m);
  // If no score is above −inf yet, there is no exponent to subtract.
  const T base = largest == NegativeInfinity<T>() ? T{0} : largest;
  const T rescale = Exp(sums.m - base);
  sums.m = largest;
  sums.l *= rescale;
  ASSAY_UNROLL
  for (int i = 0; i < Blocks::kKeys / kShare; ++i) {
    const T weight = Exp(scores[i] - base);
    sums.l += weight;
    weights[part + i * kShare] = weight;
  }
  return rescale;
}

template <class T>
ASSAY_GLOBAL void ASSAY_BOUNDS(kFmaThreads, 1) FmaAttention(AttentionJob a) {
  using Blocks = FmaBlocks<T>;
  constexpr int kShare = Blocks::kShare;
  constexpr int kPitch = Blocks::kKeys + 1;
  const auto pitch = static_cast<int>(a.dim) + 1;
  T* const queries = static_cast<T*>(DynamicShared());
  T* const keys = queries + Blocks::kQueries * pitch;  // and values
  T* const weights = keys + Blocks::kKeys * pitch;

  const QueryBlock block = QueriesOf(a, Blocks::kQueries);
  const std::int64_t kv = block.head / a.group * a.kv_seq * a.dim;
  const int mine = static_cast<int>(Thread().x) / kShare;
  const int part = static_cast<int>(Thread().x) % kShare;
  const std::int64_t query = block.query + mine;
  const std::int64_t last = block.query + Blocks::kQueries - 1;
  const std::int64_t limit = KeyLimit(a, last < a.seq ? last : a.seq - 1);
  ReadRows<T, Blocks::kQueries>(
      static_cast<const T*>(a.q) + (block.head * a.seq + block.query) * a.dim, a.seq - block.query,
      a.dim, queries);

  FmaSums<T> sums;
  T o[Blocks::kColumns] = {};
  for (std::int64_t key0 = 0; key0 < limit; key0 += Blocks::kKeys) {
    SyncBlock();  // the values before are no longer read
    ReadRows<T, Blocks::kKeys>(static_cast<const T*>(a.k) + kv + key0 * a.dim, a.kv_seq - key0,
                               a.dim, keys);
    SyncBlock();
    const T rescale =
        WeighKeys(a, query, key0, queries + mine * pitch, keys, weights + mine * kPitch, sums);
    SyncBlock();  // the keys are no longer read, and all weights are there
    ReadRows<T, Blocks::kKeys>(static_cast<const T*>(a.v) + kv + key0 * a.dim, a.kv_seq - key0,
                               a.dim, keys);
    SyncBlock();
    ASSAY_UNROLL
    for (int i = 0; i < Blocks::kColumns; ++i) {
      const int column = part + i * kShare;
      if (column >= static_cast<int>(a.dim)) continue;
      T sum = o[i] * rescale;
      for (int key = 0; key < Blocks::kKeys; ++key) {
        sum = Fma(weights[mine * kPitch + key], keys[key * pitch + column], sum);
      }
      o[i] = sum;
    }
  }
  for (int by = kShare / 2; by > 0; by /= 2) {
    sums.l += ShuffleXor(sums.l, by);
    sums.any_key = sums.any_key | (ShuffleXor(static_cast<int>(sums.any_key), by) != 0);
  }
  if (query >= a.seq) return;
  const Finisher<T> finish(a, sums.any_key, sums.l);
  T* const out = static_cast<T*>(a.o) + (block.head * a.seq + query) * a.dim;
  ASSAY_UNROLL
  for (int i = 0; i < Blocks::kColumns; ++i) {
    const int column = part + i * kShare;
    if (column < static_cast<int>(a.dim)) out[column] = finish(o[i]);
  }
}

template <class T>
ErrorCode LaunchFmaAttention(const AttentionJob& a, Stream stream) {
  return Launch(FmaAttention<T>, AttentionGrid(a, FmaBlocks<T>::kQueries),
                Extent{kFmaThreads, 1, 1}, FmaBlocks<T>::SharedBytes(a.dim), stream, a);
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_FMA_GPU_H_
