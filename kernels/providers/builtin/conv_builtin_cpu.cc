// conv: forward convolution (cross-correlation) with 1 to 3 spatial dimensions, as a matrix product
// with an im2col matrix that is never stored.
//
// nchw, one image and group at a time:  y[f][pixel] = Σ_t w[f][t]·x(t, pixel);
// nhwc:                                 y[pixel][f] = Σ_t x(pixel, t)·w[f][t];
// t runs over channels/groups and kernel positions in w's own order. x(t, pixel) is the input
// element under tap t, or 0 in the padding.
// Arithmetic: as in the built-in gemm: FP32 fma for fp32 and narrower floats, FP64 for fp64, exact
// int32 for int8, with one rounding to the output's format.
// Error: one chain of fmas over the taps: γ_n and 8·√n·u, n = channels/groups·Π kernel, times the
// sum of absolute products. A tap in the padding contributes w·0, so an infinite or NaN weight
// shows there, too, as in a padded input.
// Determinism: one worker computes a whole tile in one order.
//
// Work: workers take (image, group, tile of y) as they become free. Packing walks runs of the
// innermost stored axis (pixels of a row in nchw, channels in nhwc), so with stride 1 it converts
// contiguous elements.

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/blocking.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/conv_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/providers/builtin/codes-inl.h"
#include "kernels/providers/builtin/simd-inl.h"
#include "kernels/providers/builtin/tile-inl.h"

#ifndef ASSAY_CONV_BUILTIN_CPU_ONCE
#define ASSAY_CONV_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

// Three spatial dimensions, outermost first. Missing outer ones have extent 1.
using Axes = std::array<std::int64_t, 3>;

struct ConvShape {
  std::int64_t batch;
  std::int64_t channels;
  std::int64_t filters;
  std::int64_t groups;
  Axes input, kernel, output, stride, padding, dilation;
  bool nhwc;

  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_filters() const { return filters / groups; }
  std::int64_t taps() const { return group_channels() * kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t in_pixels() const { return input[0] * input[1] * input[2]; }
  std::int64_t out_pixels() const { return output[0] * output[1] * output[2]; }
};

struct ConvLaunch {
  ConvShape shape;
  Blocking blocking;
  DType in;
  DType out;
  const void* x;
  const void* w;
  void* y;
  std::byte* workspace;
  std::int64_t pitch;  // [bytes] between workers' parts
};

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

using internal::ConvShape;

// The input row under output row (od, oh) and kernel position (kd, kh), as an offset in pixels.
// Negative in the padding.
HWY_INLINE std::int64_t InputRow(const ConvShape& s, std::int64_t od, std::int64_t oh,
                                 std::int64_t kd, std::int64_t kh) {
  const std::int64_t id = od * s.stride[0] - s.padding[0] + kd * s.dilation[0];
  const std::int64_t ih = oh * s.stride[1] - s.padding[1] + kh * s.dilation[1];
  if (id < 0 || id >= s.input[0] || ih < 0 || ih >= s.input[1]) return -1;
  return (id * s.input[1] + ih) * s.input[2];
}

template <class Raw>
HWY_INLINE void FillZeros(Raw* to, std::int64_t n) {
  std::memset(to, 0, static_cast<std::size_t>(n) * sizeof(Raw));
}

// B of nchw. A run is one tap over consecutive output pixels.
template <class T>
struct NchwSource {
  typename Elements<T>::Cursor x;  // of the image and group
  const ConvShape* shape;

  bool along_k() const { return false; }

  template <class Raw>
  void Fill(std::int64_t tap, std::int64_t pixel, std::int64_t count, Raw* HWY_RESTRICT to) const {
    const ConvShape& s = *shape;
    const std::int64_t kw = tap % s.kernel[2];
    const std::int64_t kh = tap / s.kernel[2] % s.kernel[1];
    const std::int64_t kd = tap / (s.kernel[2] * s.kernel[1]) % s.kernel[0];
    const std::int64_t c = tap / (s.kernel[2] * s.kernel[1] * s.kernel[0]);
    std::int64_t ow = pixel % s.output[2];
    std::int64_t oh = pixel / s.output[2] % s.output[1];
    std::int64_t od = pixel / (s.output[2] * s.output[1]);
    const auto plane = x + c * s.in_pixels();
    while (count > 0) {
      const std::int64_t run = std::min(count, s.output[2] - ow);
      const std::int64_t row = InputRow(s, od, oh, kd, kh);
      if (row < 0) {
        FillZeros(to, run);
      } else {
        FillRun(plane + row, ow * s.stride[2] - s.padding[2] + kw * s.dilation[2], run, to);
      }
      to += run;
      count -= run;
      ow = 0;
      if (++oh == s.output[1]) {
        oh = 0;
        ++od;
      }
    }
  }

  // Reads `run` elements of an input row from column iw on, a stride apart.
  template <class Raw>
  HWY_INLINE void FillRun(typename Elements<T>::Cursor row, std::int64_t iw, std::int64_t run,
                          Raw* to) const {
    const std::int64_t width = shape->input[2];
    const std::int64_t stride = shape->stride[2];
    // [first, last) is the part of the run inside the row.
    const std::int64_t first = iw >= 0 ? 0 : std::min(run, internal::CeilDiv(-iw, stride));
    const std::int64_t last =
        iw >= width ? first : std::clamp(internal::CeilDiv(width - iw, stride), first, run);
    FillZeros(to, first);
    if (stride == 1) {
      ConvertRow(row + iw + first, last - first, to + first);
    } else {
      static_assert(kMaxStrided >= internal::kMaxTileCols);
      ConvertStrided(row + iw + first * stride, stride, last - first, to + first);
    }
    FillZeros(to + last, run - last);
  }
};

// A of nhwc. A run is one output pixel over consecutive taps.
template <class T>
struct NhwcSource {
  typename Elements<T>::Cursor x;  // of the image, at the group's first channel
  const ConvShape* shape;

  bool along_k() const { return true; }

  template <class Raw>
  void Fill(std::int64_t pixel, std::int64_t tap, std::int64_t count, Raw* HWY_RESTRICT to) const {
    const ConvShape& s = *shape;
    const std::int64_t channels = s.group_channels();
    const std::int64_t ow = pixel % s.output[2];
    const std::int64_t oh = pixel / s.output[2] % s.output[1];
    const std::int64_t od = pixel / (s.output[2] * s.output[1]);
    std::int64_t c = tap % channels;
    std::int64_t kw = tap / channels % s.kernel[2];
    std::int64_t kh = tap / (channels * s.kernel[2]) % s.kernel[1];
    std::int64_t kd = tap / (channels * s.kernel[2] * s.kernel[1]);
    while (count > 0) {
      const std::int64_t run = std::min(count, channels - c);
      const std::int64_t row = InputRow(s, od, oh, kd, kh);
      const std::int64_t iw = ow * s.stride[2] - s.padding[2] + kw * s.dilation[2];
      if (row < 0 || iw < 0 || iw >= s.input[2]) {
        FillZeros(to, run);
      } else {
        ConvertRow(x + (row + iw) * s.channels + c, run, to);
      }
      to += run;
      count -= run;
      c = 0;
      if (++kw == s.kernel[2]) {
        kw = 0;
        if (++kh == s.kernel[1]) {
          kh = 0;
          ++kd;
        }
      }
    }
  }
};

template <class Acc, class T>
void StoreAccumulators(const Acc* HWY_RESTRICT acc, std::int64_t n, T* HWY_RESTRICT to) {
  const hn::ScalableTag<Acc> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes) StoreAs(d, hn::LoadU(d, acc + j), to + j);
  if (j < n) {
    const auto rest = static_cast<std::size_t>(n - j);
    StoreFirst(d, LoadFirst(d, acc + j, rest), to + j, rest);
  }
}

template <class T, class TOut>
void ConvAll(const internal::ConvLaunch& launch) {
  using Arithmetic = typename ArithmeticOf<T>::type;
  using Acc = typename Arithmetic::Acc;
  const ConvShape& s = launch.shape;
  const internal::Blocking& b = launch.blocking;
  const std::int64_t pixels = s.out_pixels();
  const std::int64_t filters = s.group_filters();
  const std::int64_t taps = s.taps();
  internal::ForEachTile(b.tiles(), b.workers, [&](std::int64_t tile, std::int64_t worker) {
    const Workspace<Arithmetic> ws(launch.workspace + worker * launch.pitch, b);
    const std::int64_t i0 = tile % b.tiles_m * b.tile_rows;
    const std::int64_t j0 = tile / b.tiles_m % b.tiles_n * b.tile_cols;
    const std::int64_t product = tile / (b.tiles_m * b.tiles_n);
    const std::int64_t group = product % s.groups;
    const std::int64_t image = product / s.groups;
    const auto x = Elements<T>::Of(launch.x, launch.in) + image * s.channels * s.in_pixels() +
                   group * s.group_channels() * (s.nhwc ? 1 : s.in_pixels());
    const MatrixSource<T> w{Elements<T>::Of(launch.w, launch.in) + group * filters * taps, taps,
                            true};
    // The place of row i, column j of the product in the output.
    TOut* y = static_cast<TOut*>(launch.y) + image * s.filters * pixels +
              group * filters * (s.nhwc ? 1 : pixels);
    const std::int64_t ld = s.nhwc ? s.filters : pixels;
    const std::int64_t m = s.nhwc ? pixels : filters;
    const std::int64_t n = s.nhwc ? filters : pixels;
    const auto store = [&](std::int64_t i, std::int64_t count, const Acc* acc) {
      StoreAccumulators(acc, count, y + (i0 + i) * ld + j0);
    };
    const std::int64_t rows = std::min(b.tile_rows, m - i0);
    const std::int64_t cols = std::min(b.tile_cols, n - j0);
    if (s.nhwc) {
      RunTile<Arithmetic>(NhwcSource<T>{x, &s}, w, i0, rows, j0, cols, taps, ws, store);
    } else {
      RunTile<Arithmetic>(w, NchwSource<T>{x, &s}, i0, rows, j0, cols, taps, ws, store);
    }
  });
}

void RunConv(const internal::ConvLaunch& launch) {
  if (launch.in == DType::kI8) return ConvAll<std::int8_t, std::int32_t>(launch);
  internal::WithFloatForm<F16, BF16, Coded>(launch.in, launch.out, [&](auto in, auto out) {
    ConvAll<decltype(in), decltype(out)>(launch);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunConv);

internal::ConvShape ShapeOf(const ConvProblem& p) {
  internal::ConvShape s{};
  s.batch = p.batch;
  s.channels = p.channels;
  s.filters = p.filters;
  s.groups = p.groups;
  s.nhwc = p.layout == "nhwc";
  s.input = s.kernel = s.output = s.stride = s.dilation = {1, 1, 1};
  s.padding = {0, 0, 0};
  const auto missing = static_cast<std::size_t>(3 - p.spatial());
  for (int d = 0; d < p.spatial(); ++d) {
    const std::size_t to = missing + static_cast<std::size_t>(d);
    s.input[to] = p.input[static_cast<std::size_t>(d)];
    s.kernel[to] = p.kernel[static_cast<std::size_t>(d)];
    s.output[to] = p.Output(d);
    s.stride[to] = p.Stride(d);
    s.padding[to] = p.Padding(d);
    s.dilation[to] = p.Dilation(d);
  }
  return s;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeConv(const Case& c, const Plan& plan, Device& device) {
  const auto& problem = std::get<ConvProblem>(c.problem);
  const DType out = plan.output.dtype;
  const bool integer = c.dtype == DType::kI8 && out == DType::kI32;
  if (!integer && !(internal::IsFloatForm(c.dtype, out) && c.dtype != DType::kE2M1)) {
    return internal::NoSuchForm("conv", c.dtype, out,
                                std::string(internal::kFloatForms) + ", and int32 from int8");
  }
  internal::ConvLaunch launch{};
  launch.shape = ShapeOf(problem);
  launch.in = c.dtype;
  launch.out = out;
  const internal::ConvShape& s = launch.shape;
  launch.blocking = internal::ChooseBlocking(s.nhwc ? s.out_pixels() : s.group_filters(),
                                             s.nhwc ? s.group_filters() : s.out_pixels(), s.taps(),
                                             s.batch * s.groups);
  launch.pitch = internal::WorkspaceBytes(launch.blocking, c.dtype == DType::kF64 ? 8 : 4);
  absl::StatusOr<Block> workspace =
      device.arena().Allocate(launch.pitch * launch.blocking.workers, false);
  if (!workspace.ok()) return workspace.status();
  launch.workspace = static_cast<std::byte*>(workspace->data);
  return internal::Made(internal::BuiltinTarget(), [launch](std::span<const TensorView> inputs,
                                                            const TensorView& output) mutable {
    launch.x = inputs[0].data;
    launch.w = inputs[1].data;
    launch.y = output.data;
    HWY_DYNAMIC_DISPATCH(RunConv)(launch);
    return absl::OkStatus();
  });
}

}  // namespace

KernelEntry BuiltinConvCpu() {
  return internal::BuiltinEntry("conv", internal::FloatFormatsAnd({DType::kI8}), &MakeConv);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
