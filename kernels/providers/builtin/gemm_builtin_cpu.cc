// gemm: D = act(alpha·scale_a·scale_b·s_j·op(A)·op(B) + beta·C + bias_j), batched, row-major.
//
// Arithmetic: fp32 and narrower floats multiply and accumulate in FP32 with fma. They are widened
// while they are packed, so each product of two numbers narrower than fp32 is exact. fp64 uses
// FP64, and int8 uses int32, exactly. The epilogue (epilogue-inl.h) takes alpha, scale_a and
// scale_b as one factor. For int8 it is in FP32 unless the output is int32.
// Error: each element is one chain of k fmas in ascending k: γ_k·(|A||B|), and 8·√k·u·(|A||B|) on
// zero-mean data.
// Determinism: one worker computes a whole tile in one order.
//
// Work: D is cut into tiles of up to 240 x 256 (blocking.h), which workers take as they become
// free. Each worker packs its own A and B, a block of 256 k at a time (tile-inl.h), so no worker
// waits for another. A tile of this size uses a packed element of B 240 times, so packing B again
// for each tile costs only some 2 %.

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/blocking.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/gemm_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/providers/builtin/codes-inl.h"
#include "kernels/providers/builtin/epilogue-inl.h"
#include "kernels/providers/builtin/simd-inl.h"
#include "kernels/providers/builtin/tile-inl.h"

#ifndef ASSAY_GEMM_BUILTIN_CPU_ONCE
#define ASSAY_GEMM_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

struct GemmLaunch {
  GemmProblem problem;
  Blocking blocking;
  DType in;
  DType out;
  TensorView a;
  TensorView b;
  TensorView c;  // data is null if beta = 0
  TensorView d;
  const void* channel_scale;  // null: none
  const void* bias;           // null: none
  std::byte* workspace;
  std::int64_t pitch;  // [bytes] between workers' parts
};

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// Computes all tiles. store(batch, row, column, n, sums) finishes n columns of a row.
template <class T, class Store>
void GemmTiles(const internal::GemmLaunch& g, const Store& store) {
  using Arithmetic = typename ArithmeticOf<T>::type;
  const GemmProblem& p = g.problem;
  const internal::Blocking& b = g.blocking;
  internal::ForEachTile(b.tiles(), b.workers, [&](std::int64_t tile, std::int64_t worker) {
    const Workspace<Arithmetic> ws(g.workspace + worker * g.pitch, b);
    // Neighbouring tiles share their columns of B.
    const std::int64_t i0 = tile % b.tiles_m * b.tile_rows;
    const std::int64_t j0 = tile / b.tiles_m % b.tiles_n * b.tile_cols;
    const std::int64_t batch = tile / (b.tiles_m * b.tiles_n);
    const auto source = [&](const TensorView& v, bool along_k) {
      return MatrixSource<T>{Elements<T>::Of(v.data, g.in) + batch * v.extents.batch_stride,
                             v.extents.ld, along_k};
    };
    RunTile<Arithmetic>(
        source(g.a, !p.trans_a), source(g.b, p.trans_b), i0, std::min(b.tile_rows, p.m - i0), j0,
        std::min(b.tile_cols, p.n - j0), p.k, ws,
        [&](std::int64_t i, std::int64_t n, const auto* acc) { store(batch, i0 + i, j0, n, acc); });
  });
}

// The address of element (batch, row, column) of C or D. Null if there is no C.
template <class T>
T* ElementAt(const TensorView& v, std::int64_t batch, std::int64_t row, std::int64_t column) {
  if (v.data == nullptr) return nullptr;
  return v.as<T>() + batch * v.extents.batch_stride + row * v.extents.ld + column;
}

template <class T, class TOut>
void GemmAll(const internal::GemmLaunch& g) {
  using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const GemmProblem& p = g.problem;
  Epilogue<F> e;
  e.factor = static_cast<F>(p.alpha) * static_cast<F>(p.scale_a) * static_cast<F>(p.scale_b);
  e.beta = static_cast<F>(p.beta);
  e.channel_scale = static_cast<const F*>(g.channel_scale);
  e.bias = static_cast<const F*>(g.bias);
  e.activation = p.activation_kind();
  GemmTiles<T>(g, [&](std::int64_t batch, std::int64_t row, std::int64_t column, std::int64_t n,
                      const auto* acc) {
    if constexpr (std::is_same_v<TOut, Coded>) {
      float from[internal::kMaxTileCols], to[internal::kMaxTileCols];
      const auto* c = ElementAt<const std::uint8_t>(g.c, batch, row, column);
      if (c != nullptr) ConvertCodes(g.out, c, n, from);
      FinishRow(e, acc, column, n, c == nullptr ? nullptr : from, to);
      StoreCodes(g.out, to, n, ElementAt<std::uint8_t>(g.d, batch, row, column));
    } else {
      FinishRow(e, acc, column, n, ElementAt<const TOut>(g.c, batch, row, column),
                ElementAt<TOut>(g.d, batch, row, column));
    }
  });
}

void GemmIntegers(const internal::GemmLaunch& g) {
  GemmTiles<std::int8_t>(g, [&](std::int64_t batch, std::int64_t row, std::int64_t column,
                                std::int64_t n, const std::int32_t* acc) {
    FinishRow(static_cast<std::int32_t>(g.problem.alpha), static_cast<std::int32_t>(g.problem.beta),
              acc, n, ElementAt<const std::int32_t>(g.c, batch, row, column),
              ElementAt<std::int32_t>(g.d, batch, row, column));
  });
}

void RunGemm(const internal::GemmLaunch& g) {
  if (g.in == DType::kI8) {
    switch (g.out) {
      case DType::kF32:
        return GemmAll<std::int8_t, float>(g);
      case DType::kF16:
        return GemmAll<std::int8_t, F16>(g);
      case DType::kBF16:
        return GemmAll<std::int8_t, BF16>(g);
      default:
        return GemmIntegers(g);
    }
  }
  if (internal::IsCoded(g.out)) return GemmAll<Coded, Coded>(g);
  internal::WithFloatForm<F16, BF16, Coded>(
      g.in, g.out, [&](auto in, auto out) { GemmAll<decltype(in), decltype(out)>(g); });
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunGemm);

absl::StatusOr<std::unique_ptr<Kernel>> MakeGemm(const Case& c, const Plan& plan, Device& device) {
  const auto& problem = std::get<GemmProblem>(c.problem);
  const DType out = plan.output.dtype;
  const bool integer = c.dtype == DType::kI8 && out == DType::kI32;
  const bool dequantised =
      c.dtype == DType::kI8 && (out == DType::kF32 || out == DType::kF16 || out == DType::kBF16);
  const bool coded = out == c.dtype && internal::IsCoded(out) && out != DType::kE2M1;
  if (!integer && !dequantised && !coded && !internal::IsFloatForm(c.dtype, out)) {
    return internal::NoSuchForm(
        "gemm", c.dtype, out,
        std::string(internal::kFloatForms) +
            " or e2m1, 8-bit floats from the same, and int32, fp32, fp16 or bf16 from int8");
  }
  if (integer) {
    if (absl::Status s = internal::CheckWholeScalars(problem); !s.ok()) return s;
  }
  internal::GemmLaunch launch{};
  launch.problem = problem;
  launch.in = c.dtype;
  launch.out = out;
  launch.blocking = internal::ChooseBlocking(problem.m, problem.n, problem.k, problem.batch);
  launch.pitch = internal::WorkspaceBytes(launch.blocking, c.dtype == DType::kF64 ? 8 : 4);
  absl::StatusOr<Block> workspace =
      device.arena().Allocate(launch.pitch * launch.blocking.workers, false);
  if (!workspace.ok()) return workspace.status();
  launch.workspace = static_cast<std::byte*>(workspace->data);
  return internal::Made(internal::BuiltinTarget(), [launch](std::span<const TensorView> inputs,
                                                            const TensorView& output) mutable {
    const GemmProblem& p = launch.problem;
    const auto data = [&](int operand) { return inputs[static_cast<std::size_t>(operand)].data; };
    launch.a = inputs[0];
    launch.b = inputs[1];
    launch.c = p.beta != 0.0 ? inputs[2] : TensorView{};
    launch.channel_scale = p.channel_scale ? data(p.channel_scale_operand()) : nullptr;
    launch.bias = p.bias ? data(p.bias_operand()) : nullptr;
    launch.d = output;
    HWY_DYNAMIC_DISPATCH(RunGemm)(launch);
    return absl::OkStatus();
  });
}

}  // namespace

KernelEntry BuiltinGemmCpu() {
  return internal::BuiltinEntry("gemm", internal::FloatFormatsAnd({DType::kE2M1, DType::kI8}),
                                &MakeGemm);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
