// softmax along rows: y = exp(x − m)/Σ exp(x − m), with m the row's maximum.
//
// Arithmetic: FP32 (FP64 for fp64) throughout. Narrower inputs are widened, and outputs are rounded
// once to nearest even. The terms are kept 2^30 (2^60) times too large, so that none loses bits to
// underflow before the final product with 1/Σ.
// Error: the subtraction, exp (1.2 ulp; simd-inl.h), a sum of depth cols/(4·lanes) + 6, one
// division and one product. That is well inside y·u·(2|x − m| + 8 + h).
// Special values follow IEEE arithmetic. A row with a NaN or a +inf, or with −inf only, is NaN
// everywhere. −inf beside finite values gives 0.
// Determinism: one thread sums a row in one fixed order.
//
// Work: rows are split evenly over the threads. A row is read for its maximum, read again (from L1)
// for the terms, which go to a scratch row, and scaled from there. So input and output cross the
// memory bus once each. If both exceed the last-level cache, the stores bypass it, which saves
// reading the output's lines first.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/softmax_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/providers/builtin/codes-inl.h"
#include "kernels/providers/builtin/softmax_rows-inl.h"

#ifndef ASSAY_SOFTMAX_BUILTIN_CPU_ONCE
#define ASSAY_SOFTMAX_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

struct SoftmaxLaunch {
  const void* x;
  void* y;
  DType in;
  DType out;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t ld_x;     // [elements]
  std::int64_t ld_y;     // [elements]
  bool streaming;        // stores bypass the caches; rows of y are 64-byte aligned
  std::byte* scratch;    // a row for each worker, two for 8-bit inputs
  std::int64_t pitch;    // [bytes] of a row, a multiple of 256
  std::int64_t workers;  // rows of scratch
};

// Fewer elements are not worth a second thread, which takes some 2 µs to wake.
inline constexpr std::int64_t kSoftmaxGrain = 16384;

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

template <class Raw, class TIn, class TOut>
void SoftmaxRows(const internal::SoftmaxLaunch& a, std::int64_t begin, std::int64_t end,
                 Raw* scratch) {
  for (std::int64_t row = begin; row < end; ++row) {
    const auto from = Elements<TIn>::Of(a.x, a.in) + row * a.ld_x;
    TOut* y = static_cast<TOut*>(a.y) + row * a.ld_y;
    Raw sum;
    if constexpr (std::is_same_v<TIn, Coded>) {
      Raw* x = scratch + a.pitch / static_cast<std::int64_t>(sizeof(Raw));
      ConvertRow(from, a.cols, x);
      sum = RowTerms(x, a.cols, RowMax<Raw>(x, a.cols), scratch);
    } else {
      sum = RowTerms(from, a.cols, RowMax<Raw>(from, a.cols), scratch);
    }
    if (a.streaming) {
      RowScale<true>(scratch, a.cols, Raw{1} / sum, y);
    } else {
      RowScale<false>(scratch, a.cols, Raw{1} / sum, y);
    }
  }
  if (a.streaming) hwy::FlushStream();
}

template <class Raw, class TIn, class TOut>
void SoftmaxAll(const internal::SoftmaxLaunch& a) {
  const std::int64_t useful = std::max<std::int64_t>(1, a.rows * a.cols / internal::kSoftmaxGrain);
  const std::int64_t workers = std::min({a.workers, useful, a.rows});
  ParallelFor(workers, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows_each = std::is_same_v<TIn, Coded> ? 2 : 1;
    Raw* scratch = reinterpret_cast<Raw*>(a.scratch + begin * rows_each * a.pitch);
    SoftmaxRows<Raw, TIn, TOut>(a, a.rows * begin / workers, a.rows * end / workers, scratch);
  });
}

void RunSoftmax(const internal::SoftmaxLaunch& a) {
  internal::WithFloatForm<F16, BF16, Coded>(a.in, a.out, [&](auto in, auto out) {
    using Raw = std::conditional_t<std::is_same_v<decltype(in), double>, double, float>;
    SoftmaxAll<Raw, decltype(in), decltype(out)>(a);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunSoftmax);

absl::StatusOr<std::unique_ptr<Kernel>> MakeSoftmax(const Case& c, const Plan& plan,
                                                    Device& device) {
  const auto& problem = std::get<SoftmaxProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!internal::IsFloatForm(c.dtype, out) || c.dtype == DType::kE2M1) {
    return internal::NoSuchForm("softmax", c.dtype, out, internal::kFloatForms);
  }
  internal::SoftmaxLaunch launch{};
  launch.in = c.dtype;
  launch.out = out;
  launch.rows = problem.rows;
  launch.cols = problem.cols;
  launch.workers = std::max<std::int64_t>(1, std::min<std::int64_t>(ParallelWidth(), problem.rows));
  const std::int64_t raw_bytes = c.dtype == DType::kF64 ? 8 : 4;
  // The padding is one vector, so that the last store of a row may be whole.
  launch.pitch = (problem.cols * raw_bytes + 64 + 255) / 256 * 256;
  const bool streaming =
      internal::StreamingPays(device, StorageBytes(c.dtype, problem.rows * problem.cols) +
                                          StorageBytes(out, problem.rows * problem.cols));
  absl::StatusOr<Block> scratch = device.arena().Allocate(
      launch.pitch * launch.workers * (internal::IsCoded(c.dtype) ? 2 : 1), false);
  if (!scratch.ok()) return scratch.status();
  launch.scratch = static_cast<std::byte*>(scratch->data);
  return internal::Made(
      internal::BuiltinTarget(),
      [launch, streaming](std::span<const TensorView> inputs, const TensorView& output) mutable {
        launch.x = inputs[0].data;
        launch.y = output.data;
        launch.ld_x = inputs[0].extents.ld;
        launch.ld_y = output.extents.ld;
        launch.streaming = streaming && internal::RowsAligned(output);
        HWY_DYNAMIC_DISPATCH(RunSoftmax)(launch);
        return absl::OkStatus();
      });
}

}  // namespace

KernelEntry BuiltinSoftmaxCpu() {
  return internal::BuiltinEntry("softmax", internal::FloatFormats(), &MakeSoftmax);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
