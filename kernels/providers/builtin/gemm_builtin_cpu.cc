// gemm: D = alpha·op(A)·op(B) + beta·C, batched, row-major.
//
// Arithmetic: fp32 and 16-bit inputs multiply and accumulate in FP32 by fma (16-bit
// elements are widened while packing, so each product is exact), fp64 in FP64, int8
// in int32 exactly. The epilogue is one product with alpha, one fma with beta·C,
// and one rounding to the output's format, to nearest even.
// Error: each element is one chain of k fmas in ascending k: γ_k·(|A||B|), and
// 8·√k·u·(|A||B|) on zero-mean data.
// Determinism: tiles are computed whole by one worker in one order.
//
// Work: D is cut into tiles of up to 240 x 256 (blocking.h), which workers take as
// they get free; each packs its own A and B a block of 256 k at a time (tile-inl.h),
// so no worker waits for another. A tile this large reuses a packed element of B
// 240 times, which makes packing it afresh for each tile cost some 2 %.

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/providers/builtin/blocking.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/providers/refusals.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/gemm_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/providers/builtin/simd-inl.h"
#include "kernels/providers/builtin/tile-inl.h"

#ifndef ASSAY_GEMM_BUILTIN_CPU_ONCE
#define ASSAY_GEMM_BUILTIN_CPU_ONCE
namespace assay::internal {

struct GemmLaunch {
  GemmProblem problem;
  Blocking blocking;
  DType in;
  DType out;
  TensorView a;
  TensorView b;
  TensorView c;  // data null where beta = 0
  TensorView d;
  std::byte* workspace;
  std::int64_t pitch;  // [bytes] between workers' parts
};

}  // namespace assay::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

// to = alpha·acc + beta·from for a run of n.
template <class Acc, class T>
void StoreRun(const Acc* HWY_RESTRICT acc, std::int64_t n, Acc alpha, Acc beta, const T* from,
              T* to) {
  const hn::ScalableTag<Acc> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < n; j += lanes) {
    const auto rest = static_cast<std::size_t>(std::min(lanes, n - j));
    const bool whole = rest == static_cast<std::size_t>(lanes);
    auto v = whole ? hn::LoadU(d, acc + j) : LoadFirst(d, acc + j, rest);
    if (alpha != Acc{1}) v = hn::Mul(v, hn::Set(d, alpha));
    if (from != nullptr) {
      const auto c = whole ? LoadAs(d, from + j) : LoadFirst(d, from + j, rest);
      if constexpr (hwy::IsFloat<Acc>()) {
        v = hn::MulAdd(hn::Set(d, beta), c, v);
      } else {
        v = hn::Add(v, hn::Mul(hn::Set(d, beta), c));
      }
    }
    whole ? StoreAs(d, v, to + j) : StoreFirst(d, v, to + j, rest);
  }
}

template <class T, class TOut>
void GemmAll(const internal::GemmLaunch& g) {
  using Arithmetic = typename ArithmeticOf<T>::type;
  using Acc = typename Arithmetic::Acc;
  const GemmProblem& p = g.problem;
  const internal::Blocking& b = g.blocking;
  const Acc alpha = static_cast<Acc>(p.alpha);
  const Acc beta = static_cast<Acc>(p.beta);
  internal::ForEachTile(b.tiles(), b.workers, [&](std::int64_t tile, std::int64_t worker) {
    const Workspace<Arithmetic> ws(g.workspace + worker * g.pitch, b);
    // Neighbouring tiles share their columns of B.
    const std::int64_t i0 = tile % b.tiles_m * b.tile_rows;
    const std::int64_t j0 = tile / b.tiles_m % b.tiles_n * b.tile_cols;
    const std::int64_t batch = tile / (b.tiles_m * b.tiles_n);
    const MatrixSource<T> a{g.a.as<const T>() + batch * g.a.extents.batch_stride, g.a.extents.ld,
                            !p.trans_a};
    const MatrixSource<T> bm{g.b.as<const T>() + batch * g.b.extents.batch_stride, g.b.extents.ld,
                             p.trans_b};
    const TOut* c = g.c.data == nullptr ? nullptr
                                        : g.c.as<const TOut>() + batch * g.c.extents.batch_stride +
                                              i0 * g.c.extents.ld + j0;
    TOut* out = g.d.as<TOut>() + batch * g.d.extents.batch_stride + i0 * g.d.extents.ld + j0;
    RunTile<Arithmetic>(
        a, bm, i0, std::min(b.tile_rows, p.m - i0), j0, std::min(b.tile_cols, p.n - j0), p.k, ws,
        [&](std::int64_t i, std::int64_t n, const Acc* acc) {
          StoreRun(acc, n, alpha, beta, c == nullptr ? nullptr : c + i * g.c.extents.ld,
                   out + i * g.d.extents.ld);
        });
  });
}

void RunGemm(const internal::GemmLaunch& g) {
  const bool wide = g.out == DType::kF32;
  switch (g.in) {
    case DType::kF64:
      return GemmAll<double, double>(g);
    case DType::kF32:
      return GemmAll<float, float>(g);
    case DType::kF16:
      return wide ? GemmAll<F16, float>(g) : GemmAll<F16, F16>(g);
    case DType::kBF16:
      return wide ? GemmAll<BF16, float>(g) : GemmAll<BF16, BF16>(g);
    case DType::kI8:
      return GemmAll<std::int8_t, std::int32_t>(g);
    default:
      return;  // the factory refused it
  }
}

const char* GemmTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
namespace {

HWY_EXPORT(RunGemm);
HWY_EXPORT(GemmTarget);

class GemmKernel : public Kernel {
 public:
  explicit GemmKernel(const internal::GemmLaunch& launch) : launch_(launch) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    launch_.a = inputs[0];
    launch_.b = inputs[1];
    launch_.c = inputs.size() > 2 ? inputs[2] : TensorView{};
    launch_.d = output;
    HWY_DYNAMIC_DISPATCH(RunGemm)(launch_);
    return absl::OkStatus();
  }

  std::string implementation() const override { return HWY_DYNAMIC_DISPATCH(GemmTarget)(); }

 private:
  internal::GemmLaunch launch_;
};

bool IsWhole32(double v) { return v == std::nearbyint(v) && std::abs(v) < 0x1p31; }

absl::StatusOr<std::unique_ptr<Kernel>> MakeGemm(const Case& c, const Plan& plan, Device& device) {
  const auto& problem = std::get<GemmProblem>(c.problem);
  if (absl::Status s = RefuseGemmEpilogue(problem, "the built-in gemm"); !s.ok()) return s;
  if (absl::Status s = RefuseGemmScales(problem, "the built-in gemm"); !s.ok()) return s;
  const DType out = plan.output.dtype;
  const bool integer = c.dtype == DType::kI8 && out == DType::kI32;
  if (!integer && !internal::IsFloatForm(c.dtype, out)) {
    return internal::NoSuchForm(
        "gemm", c.dtype, out,
        "fp64, fp32, fp16 and bf16, fp32 from fp16 or bf16, and int32 from int8");
  }
  if (integer && !(IsWhole32(problem.alpha) && IsWhole32(problem.beta))) {
    return absl::UnimplementedError(
        absl::StrCat("the built-in int8 gemm computes in int32: gemm.alpha ", problem.alpha,
                     " and gemm.beta ", problem.beta, " must be whole numbers below 2^31"));
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
  return std::make_unique<GemmKernel>(launch);
}

}  // namespace

KernelEntry BuiltinGemmCpu() {
  return internal::BuiltinEntry(
      "gemm", {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI8}, &MakeGemm);
}

}  // namespace assay
#endif  // HWY_ONCE
