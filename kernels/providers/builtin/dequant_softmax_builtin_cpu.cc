// dequant_softmax: y = softmax(x) along rows, x_ij = s_j·Σ_k a_ik·w_kj, W of int8.
//
// Arithmetic: A and W are widened to FP32 while they are packed, exactly. Each logit is one chain
// of k fmas in ascending k, multiplied by s_j once. The softmax is that of softmax_rows-inl.h.
// Outputs are rounded once, to nearest even.
// Error: a logit has γ_k·|s|Σ|a||w| + u·|x|, with 8·√k·u in place of γ_k on zero-mean data. The
// softmax is well inside y·u·(2|x − m| + 8 + h).
// Special values follow IEEE arithmetic. A row of A with a NaN or an Inf gives NaN.
// Determinism: one worker sums a logit, and the exponentials of a row, in one order.
//
// Work: rows are processed in chunks whose logits stay in the last-level cache (kChunkLogits). The
// workers take the tiles of a chunk's product as they become free (blocking.h, tile-inl.h), and
// then its rows. Logits never leave the chunk's scratch memory. Each chunk reads A and W once and
// writes y once.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/blocking.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/dequant_softmax_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/providers/builtin/softmax_rows-inl.h"
#include "kernels/providers/builtin/tile-inl.h"

#ifndef ASSAY_DEQUANT_SOFTMAX_BUILTIN_CPU_ONCE
#define ASSAY_DEQUANT_SOFTMAX_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

struct DequantSoftmaxLaunch {
  DequantSoftmaxProblem problem;
  Blocking blocking;   // tiles of a chunk's product
  std::int64_t chunk;  // rows
  DType in;
  DType out;
  TensorView a, w, scale, y;
  std::byte* workspace;
  std::int64_t workspace_pitch;  // [bytes] between workers' parts
  float* logits;                 // [chunk, pitch]
  float* terms;                  // [workers, pitch]
  std::int64_t pitch;            // [floats], a multiple of 64
  std::int64_t workers;          // workers for the rows
};

// The logits of a chunk: 4 MiB.
inline constexpr std::int64_t kChunkLogits = std::int64_t{1} << 20;
// Fewer elements are not worth a second thread, which takes some 2 µs to wake.
inline constexpr std::int64_t kDequantSoftmaxGrain = 16384;

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// The stored weights. Runs of them are read as floats.
struct WeightSource {
  const std::int8_t* data;
  std::int64_t ld;
  bool runs_along_k;

  bool along_k() const { return runs_along_k; }
  HWY_INLINE void Fill(std::int64_t outer, std::int64_t begin, std::int64_t count,
                       float* HWY_RESTRICT to) const {
    const hn::ScalableTag<float> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<std::int8_t, decltype(d)> d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const std::int8_t* from = data + outer * ld + begin;
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, from + i))), d, to + i);
    }
    for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
  }
};

// to = sums·scale, n elements.
HWY_INLINE void ScaleRow(const float* HWY_RESTRICT sums, const float* HWY_RESTRICT scale,
                         std::int64_t n, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, sums + i), hn::LoadU(d, scale + i)), d, to + i);
  }
  for (; i < n; ++i) to[i] = sums[i] * scale[i];
}

// Computes the logits of `rows` rows from row0.
template <class TIn>
void Logits(const internal::DequantSoftmaxLaunch& g, const internal::Blocking& b, std::int64_t row0,
            std::int64_t rows) {
  using Float = FloatArithmetic<float>;
  const DequantSoftmaxProblem& p = g.problem;
  const MatrixSource<TIn> a{g.a.as<const TIn>() + row0 * g.a.extents.ld, g.a.extents.ld, true};
  const WeightSource w{g.w.as<const std::int8_t>(), g.w.extents.ld, p.transpose_w};
  const float* scale = g.scale.as<const float>();
  internal::ForEachTile(b.tiles(), b.workers, [&](std::int64_t tile, std::int64_t worker) {
    const Workspace<Float> ws(g.workspace + worker * g.workspace_pitch, b);
    // Neighbouring tiles share their columns of W.
    const std::int64_t i0 = tile % b.tiles_m * b.tile_rows;
    const std::int64_t j0 = tile / b.tiles_m * b.tile_cols;
    RunTile<Float>(a, w, i0, std::min(b.tile_rows, rows - i0), j0, std::min(b.tile_cols, p.n - j0),
                   p.k, ws, [&](std::int64_t i, std::int64_t n, const float* acc) {
                     ScaleRow(acc, scale + j0, n, g.logits + (i0 + i) * g.pitch + j0);
                   });
  });
}

// Computes the softmax of the same rows.
template <class TOut>
void Rows(const internal::DequantSoftmaxLaunch& g, std::int64_t row0, std::int64_t rows) {
  const std::int64_t n = g.problem.n;
  const std::int64_t useful = std::max<std::int64_t>(1, rows * n / internal::kDequantSoftmaxGrain);
  const std::int64_t workers = std::min({g.workers, useful, rows});
  ParallelFor(workers, 1, [&](std::int64_t begin, std::int64_t end) {
    float* terms = g.terms + begin * g.pitch;
    for (std::int64_t i = rows * begin / workers; i < rows * end / workers; ++i) {
      const float* x = g.logits + i * g.pitch;
      const float sum = RowTerms(x, n, RowMax<float>(x, n), terms);
      RowScale<false>(terms, n, 1.0F / sum, g.y.as<TOut>() + (row0 + i) * g.y.extents.ld);
    }
  });
}

template <class TIn, class TOut>
void All(const internal::DequantSoftmaxLaunch& g) {
  for (std::int64_t row0 = 0; row0 < g.problem.m; row0 += g.chunk) {
    const std::int64_t rows = std::min(g.chunk, g.problem.m - row0);
    internal::Blocking b = g.blocking;
    b.tiles_m = internal::CeilDiv(rows, b.tile_rows);  // the last chunk may have fewer
    Logits<TIn>(g, b, row0, rows);
    Rows<TOut>(g, row0, rows);
  }
}

template <class TIn>
void From(const internal::DequantSoftmaxLaunch& g) {
  if (g.out == DType::kF16) return All<TIn, F16>(g);
  if (g.out == DType::kBF16) return All<TIn, BF16>(g);
  return All<TIn, float>(g);
}

void RunDequantSoftmax(const internal::DequantSoftmaxLaunch& g) {
  if (g.in == DType::kF16) return From<F16>(g);
  if (g.in == DType::kBF16) return From<BF16>(g);
  return From<float>(g);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunDequantSoftmax);

bool IsActivation(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

absl::StatusOr<std::unique_ptr<Kernel>> MakeDequantSoftmax(const Case& c, const Plan& plan,
                                                           Device& device) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!IsActivation(c.dtype) || !IsActivation(out)) {
    return internal::NoSuchForm("dequant_softmax", c.dtype, out,
                                "fp32, fp16 and bf16 to fp32, fp16 and bf16");
  }
  internal::DequantSoftmaxLaunch launch{};
  launch.problem = p;
  launch.in = c.dtype;
  launch.out = out;
  launch.chunk = std::min(p.m, std::max(internal::kRowStep, internal::kChunkLogits / p.n));
  launch.blocking = internal::ChooseBlocking(launch.chunk, p.n, p.k, 1);
  launch.workspace_pitch = internal::WorkspaceBytes(launch.blocking, 4);
  launch.workers = std::max<std::int64_t>(1, std::min<std::int64_t>(ParallelWidth(), launch.chunk));
  // The padding is one vector, so that the last store of a row may be whole.
  launch.pitch = internal::RoundUp(p.n + 16, 64);
  const std::int64_t tiles = launch.workspace_pitch * launch.blocking.workers;
  const std::int64_t row = launch.pitch * static_cast<std::int64_t>(sizeof(float));
  absl::StatusOr<Block> scratch =
      device.arena().Allocate(tiles + row * (launch.chunk + launch.workers), false);
  if (!scratch.ok()) return scratch.status();
  launch.workspace = static_cast<std::byte*>(scratch->data);
  launch.logits = reinterpret_cast<float*>(launch.workspace + tiles);
  launch.terms = launch.logits + launch.pitch * launch.chunk;
  return internal::Made(internal::BuiltinTarget(), [launch](std::span<const TensorView> inputs,
                                                            const TensorView& output) mutable {
    launch.a = inputs[0];
    launch.w = inputs[1];
    launch.scale = inputs[2];
    launch.y = output;
    HWY_DYNAMIC_DISPATCH(RunDequantSoftmax)(launch);
    return absl::OkStatus();
  });
}

}  // namespace

KernelEntry BuiltinDequantSoftmaxCpu() {
  return internal::BuiltinEntry("dequant_softmax", {DType::kF32, DType::kF16, DType::kBF16},
                                &MakeDequantSoftmax);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
