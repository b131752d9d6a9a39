// Attention for GPUs: O = scale_v·softmax(scale·Q·Kᵀ + mask)·V, one block of queries of a head at a
// time. A row of scores never exists as a whole: blocks of keys are added with a running maximum m
// and sum l (Milakov and Gimelshein 2018; Dao 2023, FlashAttention-2).
//
//   m' = max(m, max_j s_j)   p_j = 2^(s_j − m')   f = 2^(m − m')
//   l' = f·l + Σ p_j         O' = f·O + Σ p_j·v_j  and at the end O/l
//
// with s = log2(e)·scale·q·k. Shapes: q and o [heads, seq, dim], k and v [heads/group, kv_seq,
// dim]. Query i of a causal head sees keys j <= i + kv_seq − seq.
// Arithmetic: fp16 and bf16 multiply with matrix instructions and FP32 sums. Scores, exponentials,
// l and O are FP32. P is rounded to the inputs' format before the product with V; l is summed
// before that. 8-bit floats become fp16, exactly, on their way into shared memory, so P is fp16 for
// them. For fp32 and fp64 see attention_fma_gpu.h.
// Error: within the attention operator's bound with u_P of the inputs' format (fp16 for 8-bit
// floats). 2^x is within 2 ulp; weights below 2^-126 become 0.
// Special values: a NaN or +inf among a query's scores, or no score above −inf, makes its row NaN.
// A masked key has weight 0, so its values must be finite. A query that sees no key gives 0 or NaN,
// as masked_rows_nan says.
// Memory: only the operands. Deterministic: one block of threads computes a block of queries, keys
// ascending.
//
// Work: four groups of 32 lanes take 32 queries each (16 if dim > 128, because registers are
// scarce). They keep scores and output in registers; the layout of a product is that of the next
// product's left operand. Q and blocks of keys and of values are in shared memory, filled by
// asynchronous copies. Two blocks of threads fit on a multiprocessor. If there is room for both
// with two stages of keys and values each, the next ones arrive while one is computed with.
// Otherwise values arrive while scores are computed, and the next keys while values are summed.
// Rows are padded by 16 bytes, so that the eight rows of a load are in different banks. If a block
// has only 64 KiB, as on AMD, rows of wide heads are not padded.
#include <type_traits>

#include "kernels/providers/builtin/attention_builtin_gpu.h"
#include "kernels/providers/builtin/attention_common_gpu.h"
#include "kernels/providers/builtin/attention_fma_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/port_matrix.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kGroups = 4;
constexpr int kThreads = kGroups * kMatrixLanes;

// How a head of up to kColumns columns is cut. A row of shared memory has kPad elements of padding,
// and shared memory holds kDepth blocks of keys and as many of values.
template <int kColumns, int kPad, int kDepth>
struct Cut {
  static constexpr int kDim = kColumns;
  static constexpr int kRowTiles = kDim > 128 ? 1 : 2;  // of 16 queries, for each group
  static constexpr int kQueries = kGroups * kRowTiles * 16;
  static constexpr int kKeys = kDim > 128 ? 32 : 64;
  static constexpr int kPitch = kDim + kPad;
  static constexpr int kStages = kDepth;
  static constexpr std::size_t kSharedBytes =
      std::size_t{kQueries + 2 * kStages * kKeys} * kPitch * 2;
};

// Reads rows [0, kRows) of `from` into shared memory as 16-bit codes. Only `rows` of them exist.
// Behind `rows` and behind dim there are zeros.
template <class C, int kRows>
ASSAY_DEVICE void FillRows(const std::uint16_t* from, std::int64_t rows, std::int64_t dim,
                           bool aligned, DType /*in*/, std::uint16_t* to, AsyncCopies& copies) {
  constexpr int kChunks = C::kDim / 8;
  constexpr int kStep = kThreads / kChunks;  // rows between a thread's copies
  static_assert(kThreads % kChunks == 0 && kRows % kStep == 0);
  const int column = static_cast<int>(Thread().x) % kChunks * 8;
  const int rest = static_cast<int>(dim) - column;
  const int valid = rest < 0 ? 0 : rest < 8 ? rest : 8;
  int row = static_cast<int>(Thread().x) / kChunks;
  const std::uint16_t* src = from + row * dim + column;
  to += row * C::kPitch + column;
  if (aligned && rows >= kRows && dim == C::kDim) {  // all is there, at distances that are known
    ASSAY_UNROLL
    for (int i = 0; i < kRows / kStep; ++i) {
      copies.Start(to + i * kStep * C::kPitch, src + i * kStep * C::kDim, 16);
    }
    return;
  }
  ASSAY_ROLLED
  for (int i = 0; i < kRows / kStep; ++i) {
    const int held = row < rows ? valid : 0;
    if (aligned) {
      copies.Start(to, held == 0 ? from : src, held * 2);
    } else {
      for (int c = 0; c < 8; ++c) to[c] = c < held ? src[c] : std::uint16_t{0};
    }
    row += kStep;
    src += kStep * dim;
    to += kStep * C::kPitch;
  }
}
template <class C, int kRows>
ASSAY_DEVICE void FillRows(const std::uint8_t* from, std::int64_t rows, std::int64_t dim,
                           bool aligned, DType in, std::uint16_t* to, AsyncCopies& /*copies*/) {
  struct alignas(8) Codes {
    std::uint8_t v[8];
  };
  const Code8 format(in);
  constexpr int kChunks = C::kDim / 8;
  ASSAY_ROLLED
  for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
    const int e = static_cast<int>(Thread().x) + i * kThreads;
    const int row = e / kChunks;
    const int column = e % kChunks * 8;
    const auto rest = row < rows ? static_cast<int>(dim) - column : 0;
    Codes codes = {};
    if (aligned && rest >= 8) {
      codes = *reinterpret_cast<const Codes*>(from + row * dim + column);
    } else {
      for (int c = 0; c < 8 && c < rest; ++c) codes.v[c] = from[row * dim + column + c];
    }
    Pack<Half, 8> halves;
    ASSAY_UNROLL
    for (int c = 0; c < 8; ++c) halves.v[c] = Half::Round(format.Load(codes.v[c]));
    *reinterpret_cast<Pack<Half, 8>*>(to + row * C::kPitch + column) = halves;
  }
}

// scores = Q·Kᵀ of a group's queries, which begin at `q`, and all keys at `k`.
template <class Format, class C>
ASSAY_DEVICE void MultiplyKeys(const std::uint16_t* q, const std::uint16_t* k,
                               FragmentD (&scores)[C::kRowTiles][C::kKeys / 8]) {
  constexpr int kPitch = C::kPitch;
  const int low = MatrixLane() % 8;
  const int second = MatrixLane() / 8 % 2 * 8;
  const int upper = MatrixLane() / 16 * 8;
  ASSAY_UNROLL
  for (int c = 0; c < C::kDim; c += 16) {
    FragmentA left[C::kRowTiles];
    ASSAY_UNROLL
    for (int i = 0; i < C::kRowTiles; ++i) {
      LoadTiles(q + (i * 16 + low + second) * kPitch + c + upper, left[i].word);
    }
    ASSAY_UNROLL
    for (int j = 0; j < C::kKeys / 8; j += 2) {
      std::uint32_t words[4];
      LoadTiles(k + (j * 8 + low + upper) * kPitch + c + second, words);
      ASSAY_UNROLL
      for (int i = 0; i < C::kRowTiles; ++i) {
        if (c == 0) {
          MultiplyFirst<Format>(scores[i][j], left[i], FragmentB{{words[0], words[1]}});
          MultiplyFirst<Format>(scores[i][j + 1], left[i], FragmentB{{words[2], words[3]}});
        } else {
          Multiply<Format>(scores[i][j], left[i], FragmentB{{words[0], words[1]}});
          Multiply<Format>(scores[i][j + 1], left[i], FragmentB{{words[2], words[3]}});
        }
      }
    }
  }
}

// out += P·V. P is the weights, in the layout of a product.
template <class Format, class C>
ASSAY_DEVICE void MultiplyValues(const FragmentD (&weights)[C::kRowTiles][C::kKeys / 8],
                                 const std::uint16_t* v,
                                 FragmentD (&out)[C::kRowTiles][C::kDim / 8]) {
  const int low = MatrixLane() % 8;
  const int second = MatrixLane() / 8 % 2 * 8;
  const int upper = MatrixLane() / 16 * 8;
  ASSAY_UNROLL
  for (int key = 0; key < C::kKeys; key += 16) {
    FragmentA left[C::kRowTiles];
    ASSAY_UNROLL
    for (int i = 0; i < C::kRowTiles; ++i) {
      ASSAY_UNROLL
      for (int w = 0; w < 4; ++w) {
        const FragmentD& d = weights[i][key / 8 + w / 2];
        left[i].word[w] = RoundTwo<Format>(d.value[w % 2 * 2], d.value[w % 2 * 2 + 1]);
      }
    }
    ASSAY_UNROLL
    for (int j = 0; j < C::kDim / 8; j += 2) {
      std::uint32_t words[4];
      LoadTilesTransposed(v + (key + low + second) * C::kPitch + j * 8 + upper, words);
      ASSAY_UNROLL
      for (int i = 0; i < C::kRowTiles; ++i) {
        Multiply<Format>(out[i][j], left[i], FragmentB{{words[0], words[1]}});
        Multiply<Format>(out[i][j + 1], left[i], FragmentB{{words[2], words[3]}});
      }
    }
  }
}

// A scale that is not positive would turn the order of the scores around, so it is applied first.
template <class C>
ASSAY_DEVICE void ScaleScores(float scale, FragmentD (&scores)[C::kRowTiles][C::kKeys / 8]) {
  ASSAY_UNROLL
  for (int i = 0; i < C::kRowTiles; ++i) {
    ASSAY_UNROLL
    for (int j = 0; j < C::kKeys / 8; ++j) {
      ASSAY_UNROLL
      for (int e = 0; e < 4; ++e) scores[i][j].value[e] = Product(scores[i][j].value[e], scale);
    }
  }
}

// What a lane knows of a query: m is that of the whole row, the rest that of the lane's own
// columns.
struct Row {
  float m;
  float l;
};

// Turns the products of all rows, times `scale`, which is positive, into weights: values 2·half and
// 2·half + 1 of tile i belong to rows[i][half]. Every step takes all rows at once, because a row's
// steps wait for each other.
template <class C>
ASSAY_DEVICE void FoldScores(FragmentD (&scores)[C::kRowTiles][C::kKeys / 8], float scale,
                             Row (&rows)[C::kRowTiles][2], float (&rescale)[C::kRowTiles][2]) {
  float base[C::kRowTiles][2];
  ASSAY_UNROLL
  for (int i = 0; i < C::kRowTiles; ++i) {
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest[2];
      ASSAY_UNROLL
      for (int v = 0; v < 2; ++v) {
        largest[v] = scores[i][0].value[2 * half + v];
        ASSAY_UNROLL
        for (int j = 1; j < C::kKeys / 8; ++j) {
          largest[v] = MaxNumber(largest[v], scores[i][j].value[2 * half + v]);
        }
      }
      base[i][half] = MaxNumber(largest[0], largest[1]);
    }
  }
  ASSAY_UNROLL
  for (int by = 1; by <= 2; by *= 2) {
    ASSAY_UNROLL
    for (int r = 0; r < 2 * C::kRowTiles; ++r) {
      base[r / 2][r % 2] = MaxNumber(base[r / 2][r % 2], ShuffleXor(base[r / 2][r % 2], by));
    }
  }
  ASSAY_UNROLL
  for (int i = 0; i < C::kRowTiles; ++i) {
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      Row& row = rows[i][half];
      const float largest = MaxNumber(row.m, Product(base[i][half], scale));
      // If no score is above −inf yet, there is no exponent to subtract. If a score is NaN, the
      // maximum drops it, but its weight is NaN.
      base[i][half] = largest == NegativeInfinity<float>() ? 0.0F : largest;
      rescale[i][half] = Exp2(row.m - base[i][half]);
      row.m = largest;
      float sum[2] = {};
      ASSAY_UNROLL
      for (int j = 0; j < C::kKeys / 8; ++j) {
        ASSAY_UNROLL
        for (int v = 0; v < 2; ++v) {
          float& s = scores[i][j].value[2 * half + v];
          s = Exp2(Fma(s, scale, -base[i][half]));
          sum[v] += s;
        }
      }
      row.l = Fma(row.l, rescale[i][half], sum[0] + sum[1]);
    }
  }
}

// Whether the outputs of some row of the wave need another factor than 1. It is asked where there
// are many of them: fewer are multiplied sooner than asked about.
template <class C>
ASSAY_DEVICE bool RescaleNeeded(const float (&rescale)[C::kRowTiles][2]) {
  if constexpr (C::kDim <= 64) {
    return true;
  } else {
    bool needed = false;
    ASSAY_UNROLL
    for (int r = 0; r < 2 * C::kRowTiles; ++r) needed = needed || rescale[r / 2][r % 2] != 1.0F;
    return Ballot(needed) != 0;
  }
}

// Sets the scores of keys that are not seen to −inf. `visible` is the number of keys of this block
// that causality allows. `mask` is this query's part, or null. Returns whether the lane has a key
// that is seen.
template <int kTiles>
ASSAY_DEVICE bool HideScores(int visible, const std::int8_t* mask, int half,
                             FragmentD (&scores)[kTiles]) {
  bool any = false;
  ASSAY_UNROLL
  for (int j = 0; j < kTiles; ++j) {
    ASSAY_UNROLL
    for (int v = 0; v < 2; ++v) {
      const int key = j * 8 + MatrixLane() % 4 * 2 + v;
      const bool sees = key < visible && (mask == nullptr || mask[key] != 0);
      any = any || sees;
      if (!sees) scores[j].value[2 * half + v] = NegativeInfinity<float>();
    }
  }
  return any;
}

template <class Out, int kTiles>
ASSAY_DEVICE void WriteRow(const AttentionJob& a, std::int64_t at, const FragmentD (&o)[kTiles],
                           int half, float l, bool any_key) {
  auto* out = static_cast<typename Out::Store*>(a.o) + at;
  const Finisher<float> finish(a, any_key, l);
  ASSAY_UNROLL
  for (int j = 0; j < kTiles; ++j) {
    ASSAY_UNROLL
    for (int v = 0; v < 2; ++v) {
      const int column = j * 8 + MatrixLane() % 4 * 2 + v;
      if (column < static_cast<int>(a.dim)) {
        out[column] = Out::Round(finish(o[j].value[2 * half + v]));
      }
    }
  }
}

// Store is uint16_t for codes of Format, uint8_t for those of a.in.
template <class Store, class Format, class C>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 2)
    MatrixAttention(AttentionJob a, bool aligned, float scale) {
  auto* const queries = static_cast<std::uint16_t*>(DynamicShared());
  std::uint16_t* const keys = queries + C::kQueries * C::kPitch;
  constexpr int kBlockCodes = C::kKeys * C::kPitch;
  std::uint16_t* const values = keys + C::kStages * kBlockCodes;

  const QueryBlock block = QueriesOf(a, C::kQueries);
  const std::int64_t kv = block.head / a.group * a.kv_seq * a.dim;
  const std::int64_t last = block.query + C::kQueries - 1;
  const std::int64_t limit = KeyLimit(a, last < a.seq ? last : a.seq - 1);
  const std::int64_t seen_by_all = a.mask != nullptr ? 0 : KeyLimit(a, block.query);
  const int group_row = static_cast<int>(Thread().x) / kMatrixLanes * C::kRowTiles * 16;
  // The query of values 2·half and 2·half + 1 in tile i.
  const auto query_of = [&](int i, int half) {
    return block.query + group_row + i * 16 + MatrixLane() / 4 + 8 * half;
  };

  AsyncCopies copies;
  const auto fill = [&](const void* from, std::int64_t key0, std::uint16_t* to) {
    FillRows<C, C::kKeys>(static_cast<const Store*>(from) + kv + key0 * a.dim, a.kv_seq - key0,
                          a.dim, aligned, a.in, to, copies);
    copies.Commit();
  };
  Row rows[C::kRowTiles][2];
  FragmentD out[C::kRowTiles][C::kDim / 8] = {};
  ASSAY_UNROLL
  for (int i = 0; i < C::kRowTiles; ++i) {
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      rows[i][half] = {NegativeInfinity<float>(), 0.0F};
    }
  }
  FillRows<C, C::kQueries>(
      static_cast<const Store*>(a.q) + (block.head * a.seq + block.query) * a.dim,
      a.seq - block.query, a.dim, aligned, a.in, queries, copies);
  if (limit > 0) fill(a.k, 0, keys);
  if (limit > 0 && C::kStages == 2) fill(a.v, 0, values);
  unsigned seen = 0;  // bit 2·i + half: with a mask, this lane has a key that the row sees
  int stage = 0;
  for (std::int64_t key0 = 0; key0 < limit; key0 += C::kKeys) {
    const bool more = key0 + C::kKeys < limit;
    copies.Wait<0>();
    SyncBlock();  // keys are there, and what was read before this block is no longer read
    if constexpr (C::kStages == 2) {
      const int next = 1 - stage;
      if (more) {
        fill(a.k, key0 + C::kKeys, keys + next * kBlockCodes);
        fill(a.v, key0 + C::kKeys, values + next * kBlockCodes);
      }
    } else {
      fill(a.v, key0, values);
    }
    FragmentD scores[C::kRowTiles][C::kKeys / 8];
    MultiplyKeys<Format, C>(queries + group_row * C::kPitch, keys + stage * kBlockCodes, scores);
    if (!(scale > 0.0F)) ScaleScores<C>(scale, scores);
    if (key0 + C::kKeys > seen_by_all) {
      ASSAY_UNROLL
      for (int i = 0; i < C::kRowTiles; ++i) {
        ASSAY_UNROLL
        for (int half = 0; half < 2; ++half) {
          const std::int64_t query = query_of(i, half);
          const std::int64_t left = query < a.seq ? KeyLimit(a, query) - key0 : 0;
          const bool any = HideScores(
              left < C::kKeys ? static_cast<int>(left) : C::kKeys,
              a.mask == nullptr ? nullptr : a.mask + query * a.kv_seq + key0, half, scores[i]);
          seen |= any ? 1U << (2 * i + half) : 0U;
        }
      }
    }
    float rescale[C::kRowTiles][2];
    FoldScores<C>(scores, scale > 0.0F ? scale : 1.0F, rows, rescale);
    if (RescaleNeeded<C>(rescale)) {
      ASSAY_UNROLL
      for (int i = 0; i < C::kRowTiles; ++i) {
        ASSAY_UNROLL
        for (int j = 0; j < C::kDim / 8; ++j) {
          ASSAY_UNROLL
          for (int e = 0; e < 4; ++e) out[i][j].value[e] *= rescale[i][e / 2];
        }
      }
    }
    if constexpr (C::kStages == 1) {
      copies.Wait<0>();
      SyncBlock();  // values are there, and the keys no longer read
      if (more) fill(a.k, key0 + C::kKeys, keys);
    }
    MultiplyValues<Format, C>(scores, values + stage * kBlockCodes, out);
    if constexpr (C::kStages == 2) stage = 1 - stage;
  }

  ASSAY_UNROLL
  for (int by = 1; by <= 2; by *= 2) seen |= ShuffleXor(seen, by);
  ASSAY_UNROLL
  for (int i = 0; i < C::kRowTiles; ++i) {
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      float l = rows[i][half].l;
      ASSAY_UNROLL
      for (int by = 1; by <= 2; by *= 2) l += ShuffleXor(l, by);
      const std::int64_t query = query_of(i, half);
      const bool any_key = a.mask != nullptr ? (seen >> (2 * i + half) & 1U) != 0
                                             : query < a.seq && KeyLimit(a, query) > 0;
      if (query >= a.seq) continue;
      const std::int64_t at = (block.head * a.seq + query) * a.dim;
      if (a.out == DType::kF16) {
        WriteRow<Half>(a, at, out[i], half, l, any_key);
      } else if (a.out == DType::kBF16) {
        WriteRow<BFloat>(a, at, out[i], half, l, any_key);
      } else {
        WriteRow<Float32>(a, at, out[i], half, l, any_key);
      }
    }
  }
}

template <class Store, class Format, class C>
ErrorCode LaunchCut(const AttentionJob& a, Stream stream) {
  const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(a.q) |
                                   reinterpret_cast<std::uintptr_t>(a.k) |
                                   reinterpret_cast<std::uintptr_t>(a.v);
  const bool aligned = addresses % 16 == 0 && a.dim % 8 == 0;
  constexpr double kLog2E = 1.4426950408889634;
  return Launch(MatrixAttention<Store, Format, C>, AttentionGrid(a, C::kQueries),
                Extent{kThreads, 1, 1}, C::kSharedBytes, stream, a, aligned,
                static_cast<float>(a.scale * kLog2E));
}

template <int kDim>
using TwoStages = Cut<kDim, 8, 2>;
template <int kDim>
using Padded = Cut<kDim, 8, 1>;
template <int kDim>
using Dense = Cut<kDim, 0, 1>;

template <class Store, class Format, int kDim>
ErrorCode LaunchDim(const AttentionJob& a, Stream stream) {
  static_assert(Dense<kDim>::kSharedBytes <= kLeastSharedBytes);
  // A multiprocessor has at least what one of its blocks may have.
  constexpr std::size_t kTwoBlocks = 2 * TwoStages<kDim>::kSharedBytes;
  constexpr std::size_t kBytes = Padded<kDim>::kSharedBytes;
  if constexpr (kTwoBlocks <= kMostSharedBytes) {
    if (a.shared_bytes >= static_cast<std::int64_t>(kTwoBlocks)) {
      return LaunchCut<Store, Format, TwoStages<kDim>>(a, stream);
    }
  }
  if constexpr (kBytes <= kLeastSharedBytes) {
    return LaunchCut<Store, Format, Padded<kDim>>(a, stream);
  } else if constexpr (kBytes > kMostSharedBytes) {
    return LaunchCut<Store, Format, Dense<kDim>>(a, stream);
  } else {
    return a.shared_bytes < static_cast<std::int64_t>(kBytes)
               ? LaunchCut<Store, Format, Dense<kDim>>(a, stream)
               : LaunchCut<Store, Format, Padded<kDim>>(a, stream);
  }
}

template <class Store, class Format>
ErrorCode LaunchMatrix(const AttentionJob& a, Stream stream) {
  if (a.dim <= 64) return LaunchDim<Store, Format, 64>(a, stream);
  if (a.dim <= 128) return LaunchDim<Store, Format, 128>(a, stream);
  return LaunchDim<Store, Format, 256>(a, stream);
}

}  // namespace

std::int64_t LeastAttentionSharedBytes(const AttentionJob& a) {
  switch (a.in) {
    case DType::kF64:
      return static_cast<std::int64_t>(FmaBlocks<double>::SharedBytes(a.dim));
    case DType::kF32:
    case DType::kTF32:
      return static_cast<std::int64_t>(FmaBlocks<float>::SharedBytes(a.dim));
    default:
      return a.dim <= 64    ? Dense<64>::kSharedBytes
             : a.dim <= 128 ? Dense<128>::kSharedBytes
                            : Dense<256>::kSharedBytes;
  }
}

ErrorCode LaunchAttention(const AttentionJob& a, Stream stream) {
  switch (a.in) {
    case DType::kF64:
      return LaunchFmaAttention<double>(a, stream);
    case DType::kF32:
    case DType::kTF32:
      return LaunchFmaAttention<float>(a, stream);
    case DType::kF16:
      return LaunchMatrix<std::uint16_t, Half>(a, stream);
    case DType::kBF16:
      return LaunchMatrix<std::uint16_t, BFloat>(a, stream);
    default:
      return LaunchMatrix<std::uint8_t, Half>(a, stream);
  }
}

}  // namespace assay::kernels::gpu
