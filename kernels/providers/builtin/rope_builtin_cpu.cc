// rope: rotary position embedding of rows x [batch, seq, heads, dim], interleaved or half-split.
//
// Arithmetic: FP32 (FP64 for fp64). Angles, cosines and sines are computed in FP64 and rounded
// once, so that large positions lose nothing. Narrower inputs are widened, and outputs are rounded
// once to nearest even.
// Error of an element: the roundings of cosine and sine, two products and a sum: 4·u·(|x1| + |x2|).
// In fp64 the angle's own error is added.
// Determinism: an element depends on its pair and its position alone.
//
// Work: rows are split evenly over the threads. Neighbouring rows are heads of one position, which
// share their cosines and sines.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/rope_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/providers/builtin/codes-inl.h"

#ifndef ASSAY_ROPE_BUILTIN_CPU_ONCE
#define ASSAY_ROPE_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

struct RopeLaunch {
  RopeProblem p;
  const void* x;
  void* y;
  DType in;
  DType out;
  std::int64_t x_ld;                  // [elements]
  std::int64_t y_ld;                  // [elements]
  std::span<const double> frequency;  // one a pair
};

// Fewer elements are not worth a second thread, which takes some 2 µs to wake.
inline constexpr std::int64_t kRopeGrain = 8192;

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

template <class Raw, class TOut>
void StoreRow(const std::vector<Raw>& from, TOut* to) {
  const hn::ScalableTag<Raw> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < from.size(); i += lanes) {
    const std::size_t count = std::min(lanes, from.size() - i);
    StoreSome(d, LoadSome(d, from.data() + i, count), to + i, count);
  }
}

template <class Raw, class T, class TOut>
void RopeRows(const internal::RopeLaunch& r, std::int64_t begin, std::int64_t end) {
  const auto pairs = r.frequency.size();
  std::vector<Raw> cosine(pairs), sine(pairs), x(2 * pairs), y(2 * pairs);
  std::int64_t position = -1;
  for (std::int64_t row = begin; row < end; ++row) {
    if (r.p.PositionOf(row) != position) {
      position = r.p.PositionOf(row);
      for (std::size_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(position) * r.frequency[i];
        cosine[i] = static_cast<Raw>(std::cos(angle));
        sine[i] = static_cast<Raw>(std::sin(angle));
      }
    }
    ConvertRow(Elements<T>::Of(r.x, r.in) + row * r.x_ld, r.p.dim, x.data());
    const std::size_t step = r.p.interleaved ? 2 : 1, distance = r.p.interleaved ? 1 : pairs;
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::size_t first = i * step, second = first + distance;
      y[first] = x[first] * cosine[i] - x[second] * sine[i];
      y[second] = x[second] * cosine[i] + x[first] * sine[i];
    }
    StoreRow(y, static_cast<TOut*>(r.y) + row * r.y_ld);
  }
}

void RunRope(const internal::RopeLaunch& r) {
  internal::WithFloatForm<F16, BF16, Coded>(r.in, r.out, [&](auto in, auto out) {
    using T = decltype(in);
    using Raw = std::conditional_t<std::is_same_v<T, double>, double, float>;
    ParallelFor(r.p.rows(), std::max<std::int64_t>(1, internal::kRopeGrain / r.p.dim),
                [&](std::int64_t begin, std::int64_t end) {
                  RopeRows<Raw, T, decltype(out)>(r, begin, end);
                });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunRope);

// One for each pair of a row.
std::vector<double> Frequencies(DType in, const RopeProblem& p) {
  const double theta = internal::KernelScalar(in, p.theta);
  std::vector<double> frequency;
  for (std::int64_t i = 0; i < p.dim / 2; ++i) {
    const double share = 2.0 * static_cast<double>(i) / static_cast<double>(p.dim);
    frequency.push_back(std::pow(theta, -share));
  }
  return frequency;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeRope(const Case& c, const Plan& plan, Device&) {
  const DType out = plan.output.dtype;
  if (!internal::IsFloatForm(c.dtype, out) || c.dtype == DType::kE2M1) {
    return internal::NoSuchForm("rope", c.dtype, out, internal::kFloatForms);
  }
  internal::RopeLaunch launch{};
  launch.p = std::get<RopeProblem>(c.problem);
  launch.in = c.dtype;
  launch.out = out;
  return internal::Made(internal::BuiltinTarget(),
                        [launch, frequency = Frequencies(c.dtype, launch.p)](
                            std::span<const TensorView> inputs, const TensorView& output) mutable {
                          launch.frequency = frequency;
                          launch.x = inputs[0].data;
                          launch.x_ld = inputs[0].extents.ld;
                          launch.y = output.data;
                          launch.y_ld = output.extents.ld;
                          HWY_DYNAMIC_DISPATCH(RunRope)(launch);
                          return absl::OkStatus();
                        });
}

}  // namespace

KernelEntry BuiltinRopeCpu() {
  return internal::BuiltinEntry("rope", internal::FloatFormats(), &MakeRope);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
