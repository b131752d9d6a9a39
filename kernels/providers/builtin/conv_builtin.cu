// Convolution (cross-correlation) for GPUs, with 1 to 3 spatial dimensions, as a matrix product.
// Its right operand, the input under each tap, is gathered and never stored:
//
//   y[filter][pixel] = Σ_t w[filter][t]·x(t, pixel), an image and a group at a time
//
// t runs over channels/groups and kernel positions in w's own order. x(t, pixel) is the input
// element under tap t, or 0 in the padding.
// Arithmetic: FP32 fma for fp32 and narrower floats, FP64 for fp64, exact int32 for int8, with one
// rounding to the output's format.
// Error: one chain of fmas over the taps: γ_n·Σ|w·x|, n = channels/groups·Π kernel. A tap in the
// padding contributes w·0, so an infinite or NaN weight shows there, too.
// Deterministic: one thread computes an element, taps ascending.
//
// Work: a block computes a tile of filters by pixels (fma_tile_gpu.h). Neighbouring threads gather
// neighbouring pixels of one tap, or, if channels are last, neighbouring taps of one pixel. Finding
// the tap and pixel of an index takes 32-bit divisions for each element.
#include <type_traits>

#include "kernels/providers/builtin/conv_builtin_gpu.h"
#include "kernels/providers/builtin/fma_tile_gpu.h"
#include "kernels/providers/builtin/store_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {
namespace {

// The extents that the kernel divides by. The elements of an image, of a group and of its taps are
// below 2^31.
struct Geometry {
  std::int64_t group_filters;
  std::int64_t group_channels;
  std::int64_t taps;
  std::int64_t in_pixels;
  std::int64_t out_pixels;
  std::int64_t tiles_f;  // tiles of filters and of pixels
  std::int64_t tiles_p;
};

Geometry GeometryOf(const ConvJob& c, int tile) {
  Geometry g = {};
  g.group_filters = c.filters / c.groups;
  g.group_channels = c.channels / c.groups;
  g.taps = g.group_channels * c.kernel[0] * c.kernel[1] * c.kernel[2];
  g.in_pixels = c.input[0] * c.input[1] * c.input[2];
  g.out_pixels = c.output[0] * c.output[1] * c.output[2];
  g.tiles_f = (g.group_filters + tile - 1) / tile;
  g.tiles_p = (g.out_pixels + tile - 1) / tile;
  return g;
}

struct Position {
  int at[3];
};

// The position of an index among `extent`s, the innermost last.
ASSAY_DEVICE Position PositionOf(unsigned index, const std::int64_t* extent) {
  const auto e1 = static_cast<unsigned>(extent[1]);
  const auto e2 = static_cast<unsigned>(extent[2]);
  return {{static_cast<int>(index / (e1 * e2)), static_cast<int>(index / e2 % e1),
           static_cast<int>(index % e2)}};
}

// The input pixel under a kernel position of an output pixel; −1 in the padding.
ASSAY_DEVICE std::int64_t InputPixel(const ConvJob& c, const Position& pixel, const Position& tap) {
  std::int64_t at = 0;
  ASSAY_UNROLL
  for (int d = 0; d < 3; ++d) {
    const std::int64_t i = pixel.at[d] * c.stride[d] - c.padding[d] + tap.at[d] * c.dilation[d];
    if (i < 0 || i >= c.input[d]) return -1;
    at = at * c.input[d] + i;
  }
  return at;
}

template <class Format>
ASSAY_DEVICE Format FormatOf(DType in) {
  if constexpr (std::is_constructible_v<Format, DType>) {
    return Format(in);
  } else {
    return Format();
  }
}

ASSAY_OUTLINE void Write(DType out, void* y, std::int64_t at, float v) { StoreAs(out, y, at, v); }
ASSAY_DEVICE void Write(DType out, void* y, std::int64_t at, double v) { StoreAs(out, y, at, v); }
ASSAY_DEVICE void Write(DType out, void* y, std::int64_t at, std::int32_t v) {
  StoreAs(out, y, at, v);
}

template <class Format, class Acc, int kMicro>
ASSAY_GLOBAL void ASSAY_BOUNDS(kTileThreads, 1) Convolve(ConvJob c, Geometry g) {
  constexpr int kExtent = kTileSide * kMicro;
  using Store = typename Format::Store;
  const Format format = FormatOf<Format>(c.in);
  const std::int64_t block = Block().x;
  const std::int64_t filter0 = block % g.tiles_f * kExtent;
  const std::int64_t pixel0 = block / g.tiles_f % g.tiles_p * kExtent;
  const std::int64_t image_group = block / (g.tiles_f * g.tiles_p);
  const std::int64_t image = image_group / c.groups;
  const std::int64_t group = image_group % c.groups;
  const auto* const w = static_cast<const Store*>(c.w) + group * g.group_filters * g.taps;
  const auto* const x = static_cast<const Store*>(c.x) + image * c.channels * g.in_pixels;
  const auto positions = static_cast<unsigned>(c.kernel[0] * c.kernel[1] * c.kernel[2]);
  const auto channels = static_cast<unsigned>(g.group_channels);
  MultiplyTile<Acc, kMicro>(
      g.taps,
      [&](int i, std::int64_t tap) {
        if (filter0 + i >= g.group_filters) return Acc{};
        return Acc{format.Load(w[(filter0 + i) * g.taps + tap])};
      },
      true,
      [&](int j, std::int64_t tap) {
        if (pixel0 + j >= g.out_pixels) return Acc{};
        const auto t = static_cast<unsigned>(tap);
        const std::int64_t channel =
            group * g.group_channels + (c.nhwc ? t % channels : t / positions);
        const std::int64_t pixel =
            InputPixel(c, PositionOf(static_cast<unsigned>(pixel0 + j), c.output),
                       PositionOf(c.nhwc ? t / channels : t % positions, c.kernel));
        if (pixel < 0) return Acc{};
        const std::int64_t at =
            c.nhwc ? pixel * c.channels + channel : channel * g.in_pixels + pixel;
        return Acc{format.Load(x[at])};
      },
      c.nhwc,
      [&](int i, int j, Acc sum) {
        const std::int64_t filter = group * g.group_filters + filter0 + i;
        const std::int64_t pixel = pixel0 + j;
        if (filter0 + i >= g.group_filters || pixel >= g.out_pixels) return;
        const std::int64_t at = c.nhwc ? pixel * c.filters + filter : filter * g.out_pixels + pixel;
        Write(c.out, c.y, image * c.filters * g.out_pixels + at, sum);
      });
}

template <class Format, class Acc, int kMicro>
ErrorCode LaunchFor(const ConvJob& c, Stream stream) {
  const Geometry g = GeometryOf(c, kTileSide * kMicro);
  return Launch(Convolve<Format, Acc, kMicro>,
                Extent{static_cast<unsigned>(g.tiles_f * g.tiles_p * c.batch * c.groups), 1, 1},
                Extent{kTileThreads, 1, 1}, 0, stream, c, g);
}

}  // namespace

ErrorCode LaunchConv(const ConvJob& c, Stream stream) {
  switch (c.in) {
    case DType::kF64:
      return LaunchFor<Float64, double, 4>(c, stream);
    case DType::kF32:
    case DType::kTF32:
      return LaunchFor<Float32, float, 4>(c, stream);
    case DType::kF16:
      return LaunchFor<Half, float, 4>(c, stream);
    case DType::kBF16:
      return LaunchFor<BFloat, float, 4>(c, stream);
    case DType::kI8:
      return LaunchFor<Int8, std::int32_t, 4>(c, stream);
    default:
      return LaunchFor<Code8, float, 4>(c, stream);
  }
}

}  // namespace assay::kernels::gpu
