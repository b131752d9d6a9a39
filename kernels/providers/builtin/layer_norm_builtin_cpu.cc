// layer norm along rows: y = (x − μ)/√(var + eps)·w + b. The RMS form is y = x/√(mean(x²) + eps)·w.
//
// Arithmetic: FP32 (FP64 for fp64). Narrower inputs are widened (8-bit ones a row at a time, into
// scratch memory), and outputs are rounded once to nearest even. There are two passes: first the
// mean μ₁, then the deviations d = x − μ₁. They are small if the variance is small, so a large mean
// costs no bits. μ₁ has the rounding error of its sum, and Σd corrects it: δ = Σd/n, var = Σd²/n −
// δ², and y = (d − δ)·rstd (Chan, Golub, LeVeque 1983: the corrected two-pass algorithm). E[x²] −
// μ² is never computed.
// Error: μ is accurate to about u·(|μ| + mean|x|), whatever n is. The result is inside
// u·[(h·mean|x| + |μ|)·rstd·(1 + |ŷ|) + (h + 8)·|ŷ|].
// Special values follow IEEE arithmetic. A NaN or an infinity makes its row NaN. In the RMS form an
// infinity makes the row 0 and itself NaN.
// Determinism: one thread sums a row in one fixed order.
//
// Work: rows are split evenly over the threads; short rows are taken a few together. The three
// passes over a row read it from memory once and then from L1. If input and output together exceed
// the last-level cache, the stores bypass it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/layer_norm_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/providers/builtin/codes-inl.h"
#include "kernels/providers/builtin/simd-inl.h"

#ifndef ASSAY_LAYER_NORM_BUILTIN_CPU_ONCE
#define ASSAY_LAYER_NORM_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

struct LayerNormLaunch {
  const void* x;
  const void* weight;  // null: 1
  const void* bias;    // null: 0
  void* y;
  DType in;
  DType out;
  DType columns;  // format of weight and bias
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t ld_x;  // [elements]
  std::int64_t ld_y;  // [elements]
  double eps;
  bool rms;
  bool streaming;  // stores bypass the caches; rows of y are 64-byte aligned
  // For 8-bit inputs alone:
  std::byte* scratch;    // a row of floats for each worker
  std::int64_t pitch;    // [bytes] between workers' rows, a multiple of 256
  std::int64_t workers;  // rows of scratch
  // If weight and bias are not in the format of the arithmetic: a row for each in it.
  void* wide_weight;
  void* wide_bias;
};

// Fewer elements are not worth a second thread, which takes some 2 µs to wake.
inline constexpr std::int64_t kLayerNormGrain = 8192;

// The input of the rows that are taken together [bytes].
inline constexpr std::int64_t kTogetherBytes = 16384;

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// kRows rows are taken together (r below counts them). So their reductions, square roots and
// divisions overlap, and weight and bias are loaded once. Each row has two chains of sums of its
// own, in the same order whatever kRows is.

template <class T>
inline constexpr bool kSumEvenOdd = std::is_same_v<T, BF16>;  // sums may take any order

template <class Raw>
struct RowStatistics {
  Raw center;  // subtracted first: the mean as summed
  Raw rstd;
  Raw shift;  // −δ·rstd, the correction of the mean
};

template <bool kNative, class Raw, class T, std::size_t... r>
void SumRows(std::index_sequence<r...>, const T* x, std::int64_t ld, std::int64_t n, Raw* sums) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VOf<decltype(d)> s0[sizeof...(r)], s1[sizeof...(r)];
  ((s0[r] = s1[r] = hn::Zero(d)), ...);
  const auto add = [&](std::size_t row, std::int64_t i) __attribute__((always_inline)) {
    const T* at = x + static_cast<std::int64_t>(row) * ld + i;
    if constexpr (kNative) {
      // Subnormals count as 0 here. The second pass corrects the effect on the mean.
      s0[row] = AddNativePairs(at, s0[row]);
    } else {
      const auto v = LoadPair<kSumEvenOdd<T>>(d, at);
      s0[row] = hn::Add(s0[row], v.first);
      s1[row] = hn::Add(s1[row], v.second);
    }
  };
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) (add(r, i), ...);
  for (; i < n; i += lanes) {
    const auto rest = static_cast<std::size_t>(std::min(lanes, n - i));
    ((s0[r] = hn::Add(s0[r], LoadSome(d, x + static_cast<std::int64_t>(r) * ld + i, rest))), ...);
  }
  ((sums[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0[r], s1[r])))), ...);
}

// Computes Σ(x − c) and Σ(x − c)². Arithmetic is the limit here, so the next rows are prefetched at
// the same time.
template <class Raw, class T, std::size_t... r>
void RowMoments(std::index_sequence<r...>, const T* x, std::int64_t ld, std::int64_t n,
                const Raw* centers, Raw* sums, Raw* squares) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  using Vector = VOf<decltype(d)>;
  Vector c[sizeof...(r)], s0[sizeof...(r)], s1[sizeof...(r)], q0[sizeof...(r)], q1[sizeof...(r)];
  ((c[r] = hn::Set(d, centers[r])), ...);
  ((s0[r] = s1[r] = q0[r] = q1[r] = hn::Zero(d)), ...);
  const auto add = [&](std::size_t row, std::int64_t i) __attribute__((always_inline)) {
    const T* next = x + static_cast<std::int64_t>(sizeof...(r) + row) * ld + i;
    hwy::Prefetch(next);
    hwy::Prefetch(next + 2 * lanes - 1);
    const auto v = LoadPair<kSumEvenOdd<T>>(d, x + static_cast<std::int64_t>(row) * ld + i);
    const auto d0 = hn::Sub(v.first, c[row]);
    const auto d1 = hn::Sub(v.second, c[row]);
    s0[row] = hn::Add(s0[row], d0);
    s1[row] = hn::Add(s1[row], d1);
    q0[row] = hn::MulAdd(d0, d0, q0[row]);
    q1[row] = hn::MulAdd(d1, d1, q1[row]);
  };
  const auto add_rest = [&](std::size_t row, std::int64_t i, std::size_t rest)
      __attribute__((always_inline)) {
    const auto v = LoadSome(d, x + static_cast<std::int64_t>(row) * ld + i, rest);
    const auto d0 = hn::IfThenElseZero(hn::FirstN(d, rest), hn::Sub(v, c[row]));
    s0[row] = hn::Add(s0[row], d0);
    q0[row] = hn::MulAdd(d0, d0, q0[row]);
  };
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) (add(r, i), ...);
  for (; i < n; i += lanes) {
    (add_rest(r, i, static_cast<std::size_t>(std::min(lanes, n - i))), ...);
  }
  ((sums[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0[r], s1[r])))), ...);
  ((squares[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(q0[r], q1[r])))), ...);
}

// y = (x − center)·rstd + shift, then ·weight + bias. kParameters: 0 none, 1 weight, 2 weight and
// bias.
template <int kParameters, bool kStreaming, bool kNative, class Raw, class TIn, class TOut,
          std::size_t... r>
void NormaliseRows(std::index_sequence<r...>, const internal::LayerNormLaunch& a, const TIn* x,
                   const RowStatistics<Raw>* by, TOut* y) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  using Vector = VOf<decltype(d)>;
  constexpr bool kEvenOdd = !kNative && std::is_same_v<TIn, BF16> && std::is_same_v<TOut, BF16>;
  const std::int64_t n = a.cols;
  const Raw* weight = static_cast<const Raw*>(a.weight);
  const Raw* bias = static_cast<const Raw*>(a.bias);
  Vector center[sizeof...(r)], rstd[sizeof...(r)], shift[sizeof...(r)];
  ((center[r] = hn::Set(d, by[r].center)), ...);
  ((rstd[r] = hn::Set(d, by[r].rstd)), ...);
  ((shift[r] = hn::Set(d, by[r].shift)), ...);
  const auto normalise = [&](std::size_t row, Vector v, Vector w, Vector b)
      __attribute__((always_inline)) {
    v = hn::MulAdd(hn::Sub(v, center[row]), rstd[row], shift[row]);
    if constexpr (kParameters == 1) v = hn::Mul(v, w);
    if constexpr (kParameters == 2) v = hn::MulAdd(v, w, b);
    return v;
  };
  Pair<Vector> w{hn::Zero(d), hn::Zero(d)};
  Pair<Vector> b = w;
  const auto put = [&](std::size_t row, std::int64_t i) __attribute__((always_inline)) {
    const auto at = static_cast<std::int64_t>(row);
    const auto v = LoadPair<kEvenOdd>(d, x + at * a.ld_x + i);
    const Pair<Vector> out{normalise(row, v.first, w.first, b.first),
                           normalise(row, v.second, w.second, b.second)};
    if constexpr (kNative) {
      StoreNativePair(d, out, kStreaming, y + at * a.ld_y + i);
    } else {
      StorePair<kEvenOdd, kStreaming>(d, out, y + at * a.ld_y + i);
    }
  };
  const auto put_rest = [&](std::size_t row, std::int64_t i, std::size_t rest)
      __attribute__((always_inline)) {
    const auto at = static_cast<std::int64_t>(row);
    const auto v = LoadSome(d, x + at * a.ld_x + i, rest);
    StoreSome(d, normalise(row, v, w.first, b.first), y + at * a.ld_y + i, rest);
  };
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    if constexpr (kParameters >= 1) w = LoadPair<kEvenOdd>(d, weight + i);
    if constexpr (kParameters >= 2) b = LoadPair<kEvenOdd>(d, bias + i);
    (put(r, i), ...);
  }
  for (; i < n; i += lanes) {
    const auto rest = static_cast<std::size_t>(std::min(lanes, n - i));
    if constexpr (kParameters >= 1) w.first = LoadSome(d, weight + i, rest);
    if constexpr (kParameters >= 2) b.first = LoadSome(d, bias + i, rest);
    (put_rest(r, i, rest), ...);
  }
}

// If `one_by_one` is set, the last pass takes one row at a time; see RowsCollide.
template <std::size_t kRows, bool kStreaming, bool kNative, class Raw, class TIn, class TOut>
void LayerNormBlock(const internal::LayerNormLaunch& a, std::int64_t row, bool one_by_one) {
  constexpr auto kEach = std::make_index_sequence<kRows>();
  const TIn* x = static_cast<const TIn*>(a.x) + row * a.ld_x;
  TOut* y = static_cast<TOut*>(a.y) + row * a.ld_y;
  const Raw count = static_cast<Raw>(a.cols);
  Raw centers[kRows] = {};
  Raw sums[kRows];
  Raw squares[kRows];
  if (!a.rms) {
    SumRows<kNative>(kEach, x, a.ld_x, a.cols, sums);
    for (std::size_t r = 0; r < kRows; ++r) centers[r] = sums[r] / count;
  }
  RowMoments(kEach, x, a.ld_x, a.cols, centers, sums, squares);
  RowStatistics<Raw> by[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    const Raw correction = a.rms ? Raw{0} : sums[r] / count;
    // Rounding may make the difference slightly negative. NaN passes through.
    Raw variance = squares[r] / count - correction * correction;
    if (variance < Raw{0}) variance = Raw{0};
    by[r].center = centers[r];
    by[r].rstd = Raw{1} / std::sqrt(variance + static_cast<Raw>(a.eps));
    by[r].shift = -correction * by[r].rstd;
  }
  const auto normalise = [&](auto rows, std::size_t first) {
    const TIn* from = x + static_cast<std::int64_t>(first) * a.ld_x;
    TOut* to = y + static_cast<std::int64_t>(first) * a.ld_y;
    if (a.weight == nullptr) {
      NormaliseRows<0, kStreaming, kNative>(rows, a, from, by + first, to);
    } else if (a.bias == nullptr) {
      NormaliseRows<1, kStreaming, kNative>(rows, a, from, by + first, to);
    } else {
      NormaliseRows<2, kStreaming, kNative>(rows, a, from, by + first, to);
    }
  };
  if (one_by_one && kRows > 1) {
    for (std::size_t r = 0; r < kRows; ++r) normalise(std::make_index_sequence<1>(), r);
  } else {
    normalise(kEach, 0);
  }
}

// Whether rows lie about 4 KiB apart. Then all of them, and often their outputs, are in the same
// sets of L1. Also, a load of one row waits for a store to another if their addresses differ by a
// multiple of 4 KiB.
inline bool RowsCollide(const internal::LayerNormLaunch& a, std::int64_t element_bytes) {
  const std::int64_t apart = a.ld_x * element_bytes % 4096;
  return apart < 256 || apart > 4096 - 256;
}

// How many rows are taken together: as many as the registers hold sums for, if their input stays in
// half of L1 for the second and third pass. Fewer if rows collide. If memory is the limit, single
// rows are enough.
inline std::int64_t RowsTogether(const internal::LayerNormLaunch& a, std::int64_t element_bytes) {
  if (a.streaming || 2 * a.cols * element_bytes > internal::kTogetherBytes) return 1;
  const bool four = HWY_TARGET == HWY_AVX3 &&
                    4 * a.cols * element_bytes <= internal::kTogetherBytes &&
                    !RowsCollide(a, element_bytes);
  return four ? 4 : 2;
}

template <bool kNative, class Raw, class TIn, class TOut>
void LayerNormRows(const internal::LayerNormLaunch& a, std::int64_t begin, std::int64_t end) {
  const std::int64_t together = RowsTogether(a, sizeof(TIn));
  const bool one_by_one = RowsCollide(a, sizeof(TIn));
  std::int64_t row = begin;
  if constexpr (HWY_TARGET == HWY_AVX3) {
    for (; together == 4 && row + 4 <= end; row += 4) {
      LayerNormBlock<4, false, kNative, Raw, TIn, TOut>(a, row, one_by_one);
    }
  }
  for (; together >= 2 && row + 2 <= end; row += 2) {
    LayerNormBlock<2, false, kNative, Raw, TIn, TOut>(a, row, one_by_one);
  }
  for (; row < end; ++row) {
    a.streaming ? LayerNormBlock<1, true, kNative, Raw, TIn, TOut>(a, row, one_by_one)
                : LayerNormBlock<1, false, kNative, Raw, TIn, TOut>(a, row, one_by_one);
  }
  if (a.streaming) hwy::FlushStream();
}

// 8-bit inputs: one row at a time is widened into a worker's scratch memory.
template <class TOut>
void LayerNormCoded(const internal::LayerNormLaunch& a) {
  const std::int64_t useful =
      std::max<std::int64_t>(1, a.rows * a.cols / internal::kLayerNormGrain);
  const std::int64_t workers = std::min({a.workers, useful, a.rows});
  ParallelFor(workers, 1, [&](std::int64_t begin, std::int64_t end) {
    float* row_of = reinterpret_cast<float*>(a.scratch + begin * a.pitch);
    internal::LayerNormLaunch widened = a;
    widened.x = row_of;
    widened.ld_x = 0;
    for (std::int64_t row = a.rows * begin / workers; row < a.rows * end / workers; ++row) {
      ConvertRow(Elements<Coded>::Of(a.x, a.in) + row * a.ld_x, a.cols, row_of);
      a.streaming
          ? LayerNormBlock<1, true, false, float, float, TOut>(widened, row, /*one_by_one=*/true)
          : LayerNormBlock<1, false, false, float, float, TOut>(widened, row, /*one_by_one=*/true);
    }
    if (a.streaming) hwy::FlushStream();
  });
}

template <class Raw, class TIn, class TOut>
void LayerNormAll(const internal::LayerNormLaunch& a) {
  [[maybe_unused]] const bool native = HasNativeBf16();
  const std::int64_t grain = std::max<std::int64_t>(1, internal::kLayerNormGrain / a.cols);
  ParallelFor(a.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (kCanBeNative && std::is_same_v<TIn, BF16> && std::is_same_v<TOut, BF16>) {
      if (native) return LayerNormRows<true, Raw, TIn, TOut>(a, begin, end);
    }
    LayerNormRows<false, Raw, TIn, TOut>(a, begin, end);
  });
}

// Widens a weight or a bias of format a.columns, fp32 or that of TIn, if arithmetic is wider.
template <class TIn, class Raw>
const void* WidenColumns(const internal::LayerNormLaunch& a, const void* from, void* wide) {
  if (from == nullptr || wide == nullptr) return from;
  Raw* to = static_cast<Raw*>(wide);
  if (a.columns == DType::kF32) {
    ConvertRow(static_cast<const float*>(from), a.cols, to);
  } else {
    ConvertRow(Elements<TIn>::Of(from, a.columns), a.cols, to);
  }
  return wide;
}

void RunLayerNorm(const internal::LayerNormLaunch& launch) {
  internal::WithFloatForm<F16, BF16, Coded>(launch.in, launch.out, [&](auto in, auto out) {
    using TIn = decltype(in);
    using Raw = std::conditional_t<std::is_same_v<TIn, double>, double, float>;
    internal::LayerNormLaunch a = launch;
    a.weight = WidenColumns<TIn, Raw>(launch, launch.weight, launch.wide_weight);
    a.bias = WidenColumns<TIn, Raw>(launch, launch.bias, launch.wide_bias);
    if constexpr (std::is_same_v<TIn, Coded>) {
      LayerNormCoded<decltype(out)>(a);
    } else {
      LayerNormAll<Raw, TIn, decltype(out)>(a);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunLayerNorm);

absl::StatusOr<std::unique_ptr<Kernel>> MakeLayerNorm(const Case& c, const Plan& plan,
                                                      Device& device) {
  const auto& problem = std::get<LayerNormProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!internal::IsFloatForm(c.dtype, out) || c.dtype == DType::kE2M1) {
    return internal::NoSuchForm("layer norm", c.dtype, out, internal::kFloatForms);
  }
  if (problem.compensated) {
    return absl::UnimplementedError("builtin layer norm on a CPU has no compensated sums");
  }
  internal::LayerNormLaunch launch{};
  launch.in = c.dtype;
  launch.out = out;
  launch.columns = problem.columns(c.dtype);
  launch.rows = problem.rows;
  launch.cols = problem.cols;
  launch.eps = problem.eps;
  launch.rms = problem.rms;
  const bool streaming =
      internal::StreamingPays(device, StorageBytes(c.dtype, problem.rows * problem.cols) +
                                          StorageBytes(out, problem.rows * problem.cols));
  if (internal::IsCoded(c.dtype)) {
    launch.workers = std::min<std::int64_t>(ParallelWidth(), problem.rows);
    launch.pitch = (problem.cols * 4 + 255) / 256 * 256;
    absl::StatusOr<Block> scratch = device.arena().Allocate(launch.pitch * launch.workers, false);
    if (!scratch.ok()) return scratch.status();
    launch.scratch = static_cast<std::byte*>(scratch->data);
  }
  const DType arithmetic = c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (problem.affine && launch.columns != arithmetic) {
    const std::int64_t bytes = StorageBytes(arithmetic, problem.cols);
    absl::StatusOr<Block> weight = device.arena().Allocate(bytes, false);
    if (!weight.ok()) return weight.status();
    absl::StatusOr<Block> bias = device.arena().Allocate(bytes, false);
    if (!bias.ok()) return bias.status();
    launch.wide_weight = weight->data;
    launch.wide_bias = bias->data;
  }
  return internal::Made(
      internal::BuiltinTarget(),
      [launch, streaming](std::span<const TensorView> inputs, const TensorView& output) mutable {
        launch.x = inputs[0].data;
        launch.weight = inputs.size() > 1 ? inputs[1].data : nullptr;
        launch.bias = inputs.size() > 2 ? inputs[2].data : nullptr;
        launch.y = output.data;
        launch.ld_x = inputs[0].extents.ld;
        launch.ld_y = output.extents.ld;
        launch.streaming = streaming && internal::RowsAligned(output);
        HWY_DYNAMIC_DISPATCH(RunLayerNorm)(launch);
        return absl::OkStatus();
      });
}

}  // namespace

KernelEntry BuiltinLayerNormCpu() {
  return internal::BuiltinEntry("layer_norm", internal::FloatFormats(), &MakeLayerNorm);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
