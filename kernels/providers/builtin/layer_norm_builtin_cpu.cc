// layer norm along rows: y = (x − μ)/√(var + eps)·w + b; the RMS form is
// y = x/√(mean(x²) + eps)·w.
//
// Arithmetic: FP32 (FP64 for fp64); 16-bit inputs are widened, outputs rounded
// once to nearest even. Two passes: the mean first, then the deviations from it
// d = x − μ₁, which are small where the variance is, so a large mean costs no
// bits. μ₁ carries the rounding of the sum; Σd corrects it: δ = Σd/n,
// var = Σd²/n − δ², and y = (d − δ)·rstd (Chan, Golub, LeVeque 1983: the corrected
// two-pass algorithm). E[x²] − μ² is never formed.
// Error: μ is good to about u·(|μ| + mean|x|), whatever n; inside
// u·[(h·mean|x| + |μ|)·rstd·(1 + |ŷ|) + (h + 8)·|ŷ|].
// Special values: a NaN or an infinity anywhere makes its row NaN (the RMS form:
// an infinity makes the row 0 and itself NaN), as IEEE arithmetic has it.
// Determinism: a row is summed in one fixed order by one thread.
//
// Work: rows are split evenly over the threads. The three passes over a row take
// it from memory once and then from L1; where input and output together exceed
// the last-level cache the output is stored around it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>

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

#include "kernels/providers/builtin/simd-inl.h"

#ifndef ASSAY_LAYER_NORM_BUILTIN_CPU_ONCE
#define ASSAY_LAYER_NORM_BUILTIN_CPU_ONCE
namespace assay::internal {

struct LayerNormLaunch {
  const void* x;
  const float* weight;  // null: 1
  const float* bias;    // null: 0
  void* y;
  DType in;
  DType out;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t ld_x;  // [elements]
  std::int64_t ld_y;  // [elements]
  double eps;
  bool rms;
  bool streaming;  // store around the caches
};

// Fewer elements than this are not worth a second thread, which takes some 2 µs
// to wake.
inline constexpr std::int64_t kLayerNormGrain = 32768;

}  // namespace assay::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

inline constexpr int kUnroll = 4;

// Σ f(x) over a row in four chains; `f(v, first)` sees whole vectors, and zeroes
// the lanes behind the row's end itself (`live` is the mask of lanes within).
template <class Raw, class T>
Raw RowSum(const T* HWY_RESTRICT x, std::int64_t n) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + kUnroll * lanes <= n; i += kUnroll * lanes) {
    s0 = hn::Add(s0, LoadAs(d, x + i));
    s1 = hn::Add(s1, LoadAs(d, x + i + lanes));
    s2 = hn::Add(s2, LoadAs(d, x + i + 2 * lanes));
    s3 = hn::Add(s3, LoadAs(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, LoadAs(d, x + i));
  if (i < n) s1 = hn::Add(s1, LoadFirst(d, x + i, static_cast<std::size_t>(n - i)));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// Σ(x − c) and Σ(x − c)².
template <class Raw>
struct Moments {
  Raw first;
  Raw second;
};

template <class Raw, class T>
Moments<Raw> RowMoments(const T* HWY_RESTRICT x, std::int64_t n, Raw center) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto c = hn::Set(d, center);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  auto q0 = s0, q1 = s0, q2 = s0, q3 = s0;
  std::int64_t i = 0;
  for (; i + kUnroll * lanes <= n; i += kUnroll * lanes) {
    const auto d0 = hn::Sub(LoadAs(d, x + i), c);
    const auto d1 = hn::Sub(LoadAs(d, x + i + lanes), c);
    const auto d2 = hn::Sub(LoadAs(d, x + i + 2 * lanes), c);
    const auto d3 = hn::Sub(LoadAs(d, x + i + 3 * lanes), c);
    s0 = hn::Add(s0, d0);
    s1 = hn::Add(s1, d1);
    s2 = hn::Add(s2, d2);
    s3 = hn::Add(s3, d3);
    q0 = hn::MulAdd(d0, d0, q0);
    q1 = hn::MulAdd(d1, d1, q1);
    q2 = hn::MulAdd(d2, d2, q2);
    q3 = hn::MulAdd(d3, d3, q3);
  }
  for (; i + lanes <= n; i += lanes) {
    const auto d0 = hn::Sub(LoadAs(d, x + i), c);
    s0 = hn::Add(s0, d0);
    q0 = hn::MulAdd(d0, d0, q0);
  }
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    const auto d1 = hn::IfThenElseZero(hn::FirstN(d, rest), hn::Sub(LoadFirst(d, x + i, rest), c));
    s1 = hn::Add(s1, d1);
    q1 = hn::MulAdd(d1, d1, q1);
  }
  return {hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))),
          hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(q0, q1), hn::Add(q2, q3))))};
}

// Weight and bias are fp32 whatever Raw is.
template <class D>
HWY_INLINE VOf<D> LoadParameter(D d, const float* p, std::size_t n) {
  if constexpr (sizeof(TOf<D>) == sizeof(float)) {
    return n == hn::Lanes(d) ? hn::LoadU(d, p) : LoadFirst(d, p, n);
  } else {
    const hn::Rebind<float, D> df;
    return hn::PromoteTo(d, n == hn::Lanes(d) ? hn::LoadU(df, p) : LoadFirst(df, p, n));
  }
}

// What turns deviations into outputs.
template <class Raw>
struct Normaliser {
  Raw center;
  Raw rstd;
  Raw shift;  // −δ·rstd
  const float* weight;
  const float* bias;
};

template <bool kAffine, class D, class T>
HWY_INLINE VOf<D> Normalise(D d, const T* x, std::int64_t i, std::size_t n,
                            const Normaliser<TOf<D>>& by) {
  const auto v = n == hn::Lanes(d) ? LoadAs(d, x + i) : LoadFirst(d, x + i, n);
  auto y = hn::MulAdd(hn::Sub(v, hn::Set(d, by.center)), hn::Set(d, by.rstd), hn::Set(d, by.shift));
  if constexpr (kAffine) {
    const auto w = LoadParameter(d, by.weight + i, n);
    y = by.bias == nullptr ? hn::Mul(y, w) : hn::MulAdd(y, w, LoadParameter(d, by.bias + i, n));
  }
  return y;
}

template <bool kStreaming, bool kAffine, class Raw, class TIn, class TOut>
void RowNormalise(const TIn* HWY_RESTRICT x, std::int64_t n, const Normaliser<Raw>& by,
                  TOut* HWY_RESTRICT y) {
  const hn::ScalableTag<Raw> d;
  const std::size_t full = hn::Lanes(d);
  const auto lanes = static_cast<std::int64_t>(full);
  std::int64_t i = 0;
  if constexpr (kStreaming) {
    const hn::ScalableTag<TOut> dt;
    const auto wide = static_cast<std::int64_t>(hn::Lanes(dt));
    HWY_ALIGN TOut staged[kMaxLanes];
    // Up to the first aligned address, then whole vectors of the output's type.
    const auto address = reinterpret_cast<std::uintptr_t>(y);
    const auto vector_bytes = static_cast<std::uintptr_t>(wide) * sizeof(TOut);
    const auto head = static_cast<std::int64_t>((0 - address) % vector_bytes / sizeof(TOut));
    for (; i < std::min(head, n); ++i) {
      StoreFirst(d, Normalise<kAffine>(d, x, i, 1, by), y + i, 1);
    }
    for (; i + wide <= n; i += wide) {
      if constexpr (sizeof(TOut) == sizeof(Raw)) {
        hn::Stream(Normalise<kAffine>(d, x, i, full, by), dt, y + i);
      } else {
        for (std::int64_t j = 0; j < wide; j += lanes) {
          StoreAs(d, Normalise<kAffine>(d, x, i + j, full, by), staged + j);
        }
        const hn::ScalableTag<std::uint16_t> d16;
        hn::Stream(hn::Load(d16, reinterpret_cast<const std::uint16_t*>(staged)), d16,
                   reinterpret_cast<std::uint16_t*>(y + i));
      }
    }
  }
  for (; i + lanes <= n; i += lanes) StoreAs(d, Normalise<kAffine>(d, x, i, full, by), y + i);
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    StoreFirst(d, Normalise<kAffine>(d, x, i, rest, by), y + i, rest);
  }
}

template <class Raw, class TIn, class TOut>
void LayerNormRows(const internal::LayerNormLaunch& a, std::int64_t begin, std::int64_t end) {
  const Raw count = static_cast<Raw>(a.cols);
  const Raw eps = static_cast<Raw>(a.eps);
  for (std::int64_t row = begin; row < end; ++row) {
    const TIn* x = static_cast<const TIn*>(a.x) + row * a.ld_x;
    TOut* y = static_cast<TOut*>(a.y) + row * a.ld_y;
    Normaliser<Raw> by{Raw{0}, Raw{0}, Raw{0}, a.weight, a.bias};
    if (a.rms) {
      const Raw mean_square = RowMoments(x, a.cols, Raw{0}).second / count;
      by.rstd = Raw{1} / std::sqrt(mean_square + eps);
    } else {
      by.center = RowSum<Raw>(x, a.cols) / count;
      const Moments<Raw> m = RowMoments(x, a.cols, by.center);
      const Raw correction = m.first / count;
      // Rounding may leave the difference a little below zero; NaN passes through.
      const Raw variance = m.second / count - correction * correction;
      by.rstd = Raw{1} / std::sqrt((variance < Raw{0} ? Raw{0} : variance) + eps);
      by.shift = -correction * by.rstd;
    }
    if (a.weight != nullptr) {
      a.streaming ? RowNormalise<true, true>(x, a.cols, by, y)
                  : RowNormalise<false, true>(x, a.cols, by, y);
    } else {
      a.streaming ? RowNormalise<true, false>(x, a.cols, by, y)
                  : RowNormalise<false, false>(x, a.cols, by, y);
    }
  }
  if (a.streaming) hwy::FlushStream();
}

template <class Raw, class TIn, class TOut>
void LayerNormAll(const internal::LayerNormLaunch& a) {
  ParallelFor(
      a.rows, std::max<std::int64_t>(1, internal::kLayerNormGrain / a.cols),
      [&](std::int64_t begin, std::int64_t end) { LayerNormRows<Raw, TIn, TOut>(a, begin, end); });
}

void RunLayerNorm(const internal::LayerNormLaunch& a) {
  const bool wide = a.out == DType::kF32;
  switch (a.in) {
    case DType::kF64:
      return LayerNormAll<double, double, double>(a);
    case DType::kF32:
      return LayerNormAll<float, float, float>(a);
    case DType::kF16:
      return wide ? LayerNormAll<float, F16, float>(a) : LayerNormAll<float, F16, F16>(a);
    case DType::kBF16:
      return wide ? LayerNormAll<float, BF16, float>(a) : LayerNormAll<float, BF16, BF16>(a);
    default:
      return;  // the factory refused it
  }
}

const char* LayerNormTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
namespace {

HWY_EXPORT(RunLayerNorm);
HWY_EXPORT(LayerNormTarget);

class LayerNormKernel : public Kernel {
 public:
  explicit LayerNormKernel(const internal::LayerNormLaunch& launch) : launch_(launch) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    launch_.x = inputs[0].data;
    launch_.weight = inputs.size() > 1 ? inputs[1].as<const float>() : nullptr;
    launch_.bias = inputs.size() > 2 ? inputs[2].as<const float>() : nullptr;
    launch_.y = output.data;
    launch_.ld_x = inputs[0].extents.ld;
    launch_.ld_y = output.extents.ld;
    HWY_DYNAMIC_DISPATCH(RunLayerNorm)(launch_);
    return absl::OkStatus();
  }

  std::string implementation() const override { return HWY_DYNAMIC_DISPATCH(LayerNormTarget)(); }

 private:
  internal::LayerNormLaunch launch_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeLayerNorm(const Case& c, const Plan& plan,
                                                      Device& device) {
  const auto& problem = std::get<LayerNormProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!internal::IsFloatForm(c.dtype, out)) {
    return internal::NoSuchForm("layer norm", c.dtype, out,
                                "fp64, fp32, fp16 and bf16, and fp32 from fp16 or bf16");
  }
  internal::LayerNormLaunch launch{};
  launch.in = c.dtype;
  launch.out = out;
  launch.rows = problem.rows;
  launch.cols = problem.cols;
  launch.eps = problem.eps;
  launch.rms = problem.rms;
  launch.streaming =
      internal::StreamingPays(device, StorageBytes(c.dtype, problem.rows * problem.cols) +
                                          StorageBytes(out, problem.rows * problem.cols));
  return std::make_unique<LayerNormKernel>(launch);
}

}  // namespace

KernelEntry BuiltinLayerNormCpu() {
  return internal::BuiltinEntry("layer_norm", {DType::kF64, DType::kF32, DType::kF16, DType::kBF16},
                                &MakeLayerNorm);
}

}  // namespace assay
#endif  // HWY_ONCE
