// attention: O = scale_v·softmax(scale·Q·Kᵀ + mask)·V (scale_q and scale_k are part of scale). A
// row of scores never exists as a whole: blocks of keys are added with a running maximum m and sum
// l (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention):
//
//   m' = max(m, max_j s_j)   p_j = exp(s_j − m')   f = exp(m − m')
//   l' = f·l + Σ p_j         O' = f·O + Σ p_j·v_j  and at the end O/l.
//
// Shapes: q [B·H][S][D], k and v [B·Hkv][T][D]. Query head h reads kv head h/(H/Hkv). If causal,
// query i sees keys j <= i + T − S. The mask is int8 [S][T]; 1 keeps a key.
// Arithmetic: FP32 fma for fp32 and narrower inputs (P stays FP32), FP64 for fp64, with one
// rounding to the output's format. exp is within 1.2 ulp (simd-inl.h). With 8-bit inputs P is
// rounded to their format, 2^7 times too large, so that small weights keep their bits, as kernels
// for FP8 tensor cores do (Shah et al. 2024, FlashAttention-3). l is summed before that rounding.
// If a block of V has an infinity or NaN, P is not rounded for it, so that no small weight becomes
// 0·inf.
// Error: scores are one chain of D fmas. l and O are chains of T terms, rescaled once for each
// block of keys. The error is inside the bound with δs = 8·√D·u·(|Q||K|ᵀ)·scale + u·|s|.
// Special values follow IEEE arithmetic over the visible keys. A NaN or +inf among the scores, or
// no score above −inf, makes the row NaN. A masked key contributes nothing, whatever its V holds. A
// row without any visible key is 0 or NaN, as masked_rows says.
// Determinism: one worker computes a whole block of queries, keys ascending.
//
// Work: workers take pairs of head and block (of up to 96 queries) as they become free, because
// causal blocks differ in length. Both products use the gemm's micro-kernel. K and V are packed in
// blocks of 128 keys: small enough that scores, K and V stay in L2, and large enough that packing
// costs only some 10 %.

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/blocking.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/attention_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/providers/builtin/codes-inl.h"
#include "kernels/providers/builtin/simd-inl.h"
#include "kernels/providers/builtin/tile-inl.h"

#ifndef ASSAY_ATTENTION_BUILTIN_CPU_ONCE
#define ASSAY_ATTENTION_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

inline constexpr std::int64_t kMaxQueries = 96;  // multiple of kRowStep
inline constexpr std::int64_t kKeys = 128;       // multiple of kColStep, at most kBlockK
inline constexpr double kWeightFactor = 128;     // the scale of P in an 8-bit format

struct AttentionLaunch {
  std::int64_t heads;  // batch · heads
  std::int64_t group;  // query heads that share a kv head
  std::int64_t seq;
  std::int64_t kv_seq;
  std::int64_t dim;
  bool causal;
  bool masked_rows_nan;
  double scale;        // with scale_q and scale_k
  double value_scale;  // scale_v
  DType in;
  DType out;
  std::int64_t block;  // queries of a task
  std::int64_t workers;
  const void* q;
  const void* k;
  const void* v;
  const std::int8_t* mask;  // null: none
  void* o;
  std::byte* workspace;
  std::int64_t pitch;  // [bytes] between workers' parts

  std::int64_t padded_dim() const { return RoundUp(dim, kColStep); }
};

// A worker's memory in elements: packed Q or P (never both at once), K and V, scores, O, a row that
// is being converted, m and l.
inline std::int64_t AttentionWorkspace(const AttentionLaunch& a) {
  return 2 * a.block * kPitchA + kBlockK * kKeys + kKeys * a.padded_dim() + a.block * kKeys +
         a.block * a.padded_dim() + 4 * kBlockK + 2 * RoundUp(a.block, 16);
}

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

using internal::AttentionLaunch;
using internal::kKeys;

// What was seen of a query so far.
enum class Seen : std::uint8_t { kNothing, kKeys, kNaN };

template <class Raw>
struct Queries {
  Raw* packed_q;
  Raw* p;
  Raw* packed_k;
  Raw* packed_v;
  Raw* scores;
  Raw* o;
  Raw* row;
  Raw* max;
  Raw* sum;
  Seen seen[internal::kMaxQueries];

  Queries(const AttentionLaunch& a, std::byte* memory) {
    packed_k = reinterpret_cast<Raw*>(memory);
    packed_v = packed_k + internal::kBlockK * kKeys;
    scores = packed_v + kKeys * a.padded_dim();
    o = scores + a.block * kKeys;
    packed_q = o + a.block * a.padded_dim();
    p = packed_q + a.block * internal::kPitchA;
    row = p + a.block * internal::kPitchA;
    max = row + 4 * internal::kBlockK;
    sum = max + internal::RoundUp(a.block, 16);
  }
};

template <class Raw>
Raw ExpScalar(Raw x) {
  const hn::ScalableTag<Raw> d;
  return hn::GetLane(Exp(d, hn::Set(d, x)));
}

// Adds one query's scores s[0, keys) to m, l and O, and writes p. `visible` is the number of keys
// that causality allows. `mask` is this query's part of the mask.
template <class Raw>
void FoldScores(Raw* HWY_RESTRICT s, std::int64_t keys, std::int64_t visible,
                const std::int8_t* mask, Raw scale, Raw& max, Raw& sum, Seen& seen,
                Raw* HWY_RESTRICT p, Raw* HWY_RESTRICT o, std::int64_t dim) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr Raw kInf = std::numeric_limits<Raw>::infinity();
  // The scores are padded to kKeys, a multiple of the vector.
  const auto factor = hn::Set(d, scale);
  for (std::int64_t j = 0; j < visible; j += lanes) {
    hn::Store(hn::Mul(hn::Load(d, s + j), factor), d, s + j);
  }
  bool any = visible > 0;
  if (mask != nullptr) {
    any = false;
    for (std::int64_t j = 0; j < visible; ++j) {
      any |= mask[j] != 0;
      s[j] = mask[j] != 0 ? s[j] : -kInf;
    }
  }
  if (!any) {
    std::memset(p, 0, static_cast<std::size_t>(keys) * sizeof(Raw));
    return;
  }
  for (std::int64_t j = visible; j < kKeys; ++j) s[j] = -kInf;
  if (seen == Seen::kNothing) seen = Seen::kKeys;

  auto top = hn::Set(d, -kInf);
  for (std::int64_t j = 0; j < visible; j += lanes) top = hn::Max(top, hn::Load(d, s + j));
  const Raw block_max = hn::GetLane(hn::MaxOfLanes(d, top));
  const Raw new_max = block_max > max ? block_max : max;
  if (new_max == -kInf) {
    // If no score is above −inf yet, there is no exponent to subtract. A NaN, which Max may drop,
    // is kept.
    for (std::int64_t j = 0; j < visible; ++j) {
      if (std::isnan(s[j])) seen = Seen::kNaN;
    }
    std::memset(p, 0, static_cast<std::size_t>(keys) * sizeof(Raw));
    return;
  }

  const auto m = hn::Set(d, new_max);
  auto total = hn::Zero(d);
  for (std::int64_t j = 0; j < keys; j += lanes) {
    const auto e = Exp(d, hn::Sub(hn::Load(d, s + j), m));
    total = hn::Add(total, e);
    hn::Store(e, d, p + j);  // rows of p are padded
  }
  const Raw block_sum = hn::GetLane(hn::SumOfLanes(d, total));
  if (new_max != max) {
    const Raw rescale = ExpScalar(max - new_max);
    sum *= rescale;
    const auto f = hn::Set(d, rescale);
    for (std::int64_t c = 0; c < dim; c += lanes) {
      hn::Store(hn::Mul(hn::Load(d, o + c), f), d, o + c);
    }
    max = new_max;
  }
  sum += block_sum;
}

// Whether a block of V holds an infinity or NaN. Then 0·v is not 0, and masked keys must be left
// out of the product.
template <class Raw>
bool HasNonFinite(const Raw* v, std::int64_t n) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto odd = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += lanes) {
    odd = hn::MulAdd(hn::Load(d, v + i), hn::Zero(d), odd);
  }
  return !(hn::GetLane(hn::SumOfLanes(d, odd)) == Raw{0});
}

// o += Σ p_j·v_j over the keys that a query sees, one at a time, from packed V.
template <class Raw>
void AddVisible(const Raw* p, std::int64_t visible, const std::int8_t* mask, const Raw* packed_v,
                std::int64_t keys, std::int64_t dim, Raw* o) {
  const std::int64_t panel = PanelCols<FloatArithmetic<Raw>>();
  for (std::int64_t j = 0; j < visible; ++j) {
    if (mask != nullptr && mask[j] == 0) continue;
    for (std::int64_t c = 0; c < dim; ++c) {
      o[c] += p[j] * packed_v[(c / panel * keys + j) * panel + c % panel];
    }
  }
}

// p = kWeightFactor·p, rounded to the nearest value of an 8-bit float if `round` is set. p is in
// [0, 1] or NaN, far below the format's largest value.
inline void ScaleWeights(DType format, bool round, std::int64_t keys, float* HWY_RESTRICT p) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const FormatInfo& f = Info(format);
  const int drop = 23 - f.mantissa_bits;
  const auto one = hn::Set(du, 1u);
  const auto half = hn::Set(du, (1u << (drop - 1)) - 1);
  const auto keep = hn::Set(du, ~((1u << drop) - 1));
  const auto factor = hn::Set(d, static_cast<float>(internal::kWeightFactor));
  // Adding 1.5·2^23 quanta rounds a subnormal result to whole quanta.
  const auto magic = hn::Set(d, static_cast<float>(0x1.8p23 * f.min_subnormal));
  const auto least = hn::Set(d, static_cast<float>(f.min_normal));
  for (std::int64_t j = 0; j < keys; j += lanes) {  // rows of p are padded
    auto v = hn::Mul(hn::Load(d, p + j), factor);
    if (round) {
      const auto bits = hn::BitCast(du, v);
      const auto odd = hn::And(hn::ShiftRightSame(bits, drop), one);
      const auto normal = hn::And(hn::Add(hn::Add(bits, half), odd), keep);
      const auto small = hn::Sub(hn::Add(v, magic), magic);
      v = hn::IfThenElse(hn::Lt(v, least), small, hn::BitCast(d, normal));
    }
    hn::Store(v, d, p + j);
  }
}

template <class Raw, class T>
void ScoreBlock(const AttentionLaunch& a, const MatrixSource<T>& q, const MatrixSource<T>& k,
                std::int64_t q0, std::int64_t rows, std::int64_t key0, std::int64_t keys,
                const Queries<Raw>& w) {
  using Arithmetic = FloatArithmetic<Raw>;
  std::memset(w.scores, 0, static_cast<std::size_t>(rows * kKeys) * sizeof(Raw));
  const std::int64_t cols = internal::RoundUp(keys, PanelCols<Arithmetic>());
  for (std::int64_t c0 = 0; c0 < a.dim; c0 += internal::kBlockK) {
    const std::int64_t count = std::min(internal::kBlockK, a.dim - c0);
    // If Q fits at once, its packed form serves all blocks of keys.
    if (key0 == 0 || a.dim > internal::kBlockK) {
      PackA<Arithmetic>(q, q0, rows, c0, count, w.row, w.packed_q);
    }
    PackB<Arithmetic>(k, key0, keys, c0, count, w.row, w.packed_k);
    MultiplyBlock<Arithmetic>(w.packed_q, w.packed_k, rows, cols, count, w.scores, kKeys);
  }
}

// Divides the sums of the rows by their weights, and stores them.
template <class Raw, class T, class TOut>
void StoreRows(const AttentionLaunch& a, std::int64_t head, std::int64_t q0, std::int64_t rows,
               const Queries<Raw>& w) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Raw factor = static_cast<Raw>(a.value_scale);
  const std::int64_t ldo = a.padded_dim();
  constexpr Raw kNaN = std::numeric_limits<Raw>::quiet_NaN();
  for (std::int64_t i = 0; i < rows; ++i) {
    TOut* to = static_cast<TOut*>(a.o) + (head * a.seq + q0 + i) * a.dim;
    const bool coded = std::is_same_v<T, Coded>;
    const Raw sum = w.sum[i] * static_cast<Raw>(coded ? internal::kWeightFactor : 1.0);
    const bool empty = w.seen[i] == Seen::kNothing;
    // If the sum is 0, every visible score was −inf: exp(−inf + inf) is NaN.
    const bool nan = empty ? a.masked_rows_nan : w.seen[i] == Seen::kNaN || w.sum[i] == 0;
    for (std::int64_t c = 0; c < a.dim; c += lanes) {
      auto out = hn::Div(hn::Load(d, w.o + i * ldo + c), hn::Set(d, sum));
      if (factor != Raw{1}) out = hn::Mul(out, hn::Set(d, factor));
      if (nan) {
        out = hn::Set(d, kNaN);
      } else if (empty) {
        out = hn::Zero(d);
      }
      const std::int64_t rest = a.dim - c;
      if (rest >= lanes) {
        StoreAs(d, out, to + c);
      } else {
        StoreFirst(d, out, to + c, static_cast<std::size_t>(rest));
      }
    }
  }
}

template <class Raw, class T, class TOut>
void AttendBlock(const AttentionLaunch& a, std::int64_t head, std::int64_t q0, std::int64_t rows,
                 Queries<Raw>& w) {
  using Arithmetic = FloatArithmetic<Raw>;
  const std::int64_t kv_head = head / a.group;
  const auto rows_of = [&](const void* data, std::int64_t first) {
    return Elements<T>::Of(data, a.in) + first * a.dim;
  };
  const MatrixSource<T> q{rows_of(a.q, head * a.seq), a.dim, true};
  const MatrixSource<T> k{rows_of(a.k, kv_head * a.kv_seq), a.dim, true};
  const MatrixSource<T> v{rows_of(a.v, kv_head * a.kv_seq), a.dim, false};
  constexpr bool kCoded = std::is_same_v<T, Coded>;
  const std::int64_t ldo = a.padded_dim();
  std::memset(w.o, 0, static_cast<std::size_t>(rows * ldo) * sizeof(Raw));
  for (std::int64_t i = 0; i < rows; ++i) {
    w.max[i] = -std::numeric_limits<Raw>::infinity();
    w.sum[i] = 0;
    w.seen[i] = Seen::kNothing;
  }
  // The end of the keys that query i sees.
  const auto limit = [&](std::int64_t i) {
    return a.causal ? std::clamp<std::int64_t>(q0 + i + a.kv_seq - a.seq + 1, 0, a.kv_seq)
                    : a.kv_seq;
  };
  const std::int64_t last = limit(rows - 1);
  for (std::int64_t key0 = 0; key0 < last; key0 += kKeys) {
    const std::int64_t keys = std::min(kKeys, last - key0);
    ScoreBlock(a, q, k, q0, rows, key0, keys, w);
    const auto mask_of = [&](std::int64_t i) {
      return a.mask == nullptr ? nullptr : a.mask + (q0 + i) * a.kv_seq + key0;
    };
    const auto visible = [&](std::int64_t i) {
      return std::clamp<std::int64_t>(limit(i) - key0, 0, keys);
    };
    for (std::int64_t i = 0; i < rows; ++i) {
      FoldScores(w.scores + i * kKeys, keys, visible(i), mask_of(i), static_cast<Raw>(a.scale),
                 w.max[i], w.sum[i], w.seen[i], w.p + i * internal::kPitchA, w.o + i * ldo, a.dim);
    }
    for (std::int64_t c = 0; c < a.dim; c += internal::kMaxTileCols) {
      PackB<Arithmetic>(v, c, std::min(internal::kMaxTileCols, a.dim - c), key0, keys, w.row,
                        w.packed_v + c * keys);
    }
    const std::int64_t cols = internal::RoundUp(a.dim, PanelCols<Arithmetic>());
    const bool hides = a.causal || a.mask != nullptr;
    const bool non_finite = (hides || kCoded) && HasNonFinite(w.packed_v, cols * keys);
    if constexpr (kCoded) {
      for (std::int64_t i = 0; i < rows; ++i) {
        ScaleWeights(a.in, !non_finite, keys, w.p + i * internal::kPitchA);
      }
    }
    if (hides && non_finite) {
      for (std::int64_t i = 0; i < rows; ++i) {
        AddVisible(w.p + i * internal::kPitchA, visible(i), mask_of(i), w.packed_v, keys, a.dim,
                   w.o + i * ldo);
      }
    } else {
      MultiplyBlock<Arithmetic>(w.p, w.packed_v, rows, cols, keys, w.o, ldo);
    }
  }
  StoreRows<Raw, T, TOut>(a, head, q0, rows, w);
}

template <class Raw, class T, class TOut>
void AttentionAll(const AttentionLaunch& a) {
  const std::int64_t blocks = internal::CeilDiv(a.seq, a.block);
  internal::ForEachTile(a.heads * blocks, a.workers, [&](std::int64_t task, std::int64_t worker) {
    Queries<Raw> w(a, a.workspace + worker * a.pitch);
    // The longest rows of a causal head first, so that no long task comes last.
    const std::int64_t q0 = (blocks - 1 - task % blocks) * a.block;
    AttendBlock<Raw, T, TOut>(a, task / blocks, q0, std::min(a.block, a.seq - q0), w);
  });
}

void RunAttention(const AttentionLaunch& a) {
  internal::WithFloatForm<F16, BF16, Coded>(a.in, a.out, [&](auto in, auto out) {
    using Raw = std::conditional_t<std::is_same_v<decltype(in), double>, double, float>;
    AttentionAll<Raw, decltype(in), decltype(out)>(a);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunAttention);

absl::StatusOr<std::unique_ptr<Kernel>> MakeAttention(const Case& c, const Plan& plan,
                                                      Device& device) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!internal::IsFloatForm(c.dtype, out) || c.dtype == DType::kE2M1) {
    return internal::NoSuchForm("attention", c.dtype, out, internal::kFloatForms);
  }
  internal::AttentionLaunch launch{};
  launch.heads = p.batch * p.heads;
  launch.group = p.heads / p.KvHeads();
  launch.seq = p.seq;
  launch.kv_seq = p.KvSeq();
  launch.dim = p.dim;
  launch.causal = p.causal;
  launch.masked_rows_nan = p.masked_rows == "nan";
  launch.scale = p.Scale(c.dtype) * internal::KernelScalar(c.dtype, p.scale_q) *
                 internal::KernelScalar(c.dtype, p.scale_k);
  launch.value_scale = internal::KernelScalar(c.dtype, p.scale_v);
  launch.in = c.dtype;
  launch.out = out;
  const double work = 2.0 * static_cast<double>(launch.heads) * static_cast<double>(p.seq) *
                      static_cast<double>(launch.kv_seq) * static_cast<double>(p.dim);
  const auto useful = static_cast<std::int64_t>(std::min(work / internal::kGrainProducts, 65536.0));
  launch.workers = std::max<std::int64_t>(1, std::min<std::int64_t>(ParallelWidth(), useful));
  launch.block = std::min(internal::kMaxQueries, internal::RoundUp(p.seq, internal::kRowStep));
  const auto tasks = [&] { return launch.heads * internal::CeilDiv(p.seq, launch.block); };
  while (tasks() < 3 * launch.workers && launch.workers > 1 &&
         launch.block > 2 * internal::kRowStep) {
    launch.block = internal::RoundUp(launch.block / 2, internal::kRowStep);
  }
  launch.workers = std::min(launch.workers, tasks());
  launch.pitch = internal::RoundUp(
      internal::AttentionWorkspace(launch) * (c.dtype == DType::kF64 ? 8 : 4), 256);
  absl::StatusOr<Block> workspace = device.arena().Allocate(launch.pitch * launch.workers, false);
  if (!workspace.ok()) return workspace.status();
  launch.workspace = static_cast<std::byte*>(workspace->data);
  std::string text = internal::BuiltinTarget();
  if (internal::IsCoded(c.dtype)) text.append(", P ").append(Name(c.dtype));
  return internal::Made(std::move(text), [launch](std::span<const TensorView> inputs,
                                                  const TensorView& output) mutable {
    launch.q = inputs[0].data;
    launch.k = inputs[1].data;
    launch.v = inputs[2].data;
    launch.mask = inputs.size() > 3 ? inputs[3].as<const std::int8_t>() : nullptr;
    launch.o = output.data;
    HWY_DYNAMIC_DISPATCH(RunAttention)(launch);
    return absl::OkStatus();
  });
}

}  // namespace

KernelEntry BuiltinAttentionCpu() {
  return internal::BuiltinEntry("attention", internal::FloatFormats(), &MakeAttention);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
