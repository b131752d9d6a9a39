// The right output of a convolution and its allowance, for GPUs. The filters of a group by
// the patches of an image: Σ x·w and Σ |x||w| of an element in one FP64 pass
// (kernels/ops/common/product_gpu.h). Patches are never stored; they are made as they are
// loaded. Padding is no element of x: it adds nothing, not even times infinity. One block
// a tile of filters × positions.
//
// σ needs Σ(x·w)², for which √(Σx⁴·Σw⁴) stands (kernels/ops/common/product_residuals.h). A block
// reads the elements of its tile once more for the fourth powers, which costs little beside the
// product.
#include <cmath>

#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/product_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/conv/conv_reference_gpu.h"

namespace assay::inline kernels::gpu {
namespace {

// Rows are output positions of one image and group; terms are in the order of a filter's
// weights.
template <class Element>
struct PatchRows {
  static constexpr bool kGaps = true;
  // Where the first tap of a position lies, padding included.
  struct Row {
    std::int64_t z, y, x;
  };
  struct Term {
    std::int64_t z, y, x;  // of the tap
    std::int64_t channel;  // where it begins
  };

  const ConvShape& s;
  const void* base;
  DType dtype;
  std::int64_t origin;  // of the image's group
  bool along_terms;

  ASSAY_DEVICE_MEMBER Row RowOf(std::int64_t at) const {
    return {at / (s.output[1] * s.output[2]) * s.stride[0] - s.padding[0],
            at / s.output[2] % s.output[1] * s.stride[1] - s.padding[1],
            at % s.output[2] * s.stride[2] - s.padding[2]};
  }
  ASSAY_DEVICE_MEMBER Term TermOf(std::int64_t at) const {
    // Terms are below 2^31: divisions of 32 bits are several times faster.
    const auto term = static_cast<std::uint32_t>(at);
    const auto inner = static_cast<std::uint32_t>(s.channels_last ? s.group_channels() : s.taps());
    const std::uint32_t outer = term / inner, rest = term - outer * inner;
    const std::uint32_t tap = s.channels_last ? outer : rest;
    const std::uint32_t channel = s.channels_last ? rest : outer;
    const auto width = static_cast<std::uint32_t>(s.kernel[2]);
    const auto height = static_cast<std::uint32_t>(s.kernel[1]);
    const std::uint32_t line = tap / width;
    return {line / height * s.dilation[0], line % height * s.dilation[1],
            (tap - line * width) * s.dilation[2],
            s.channels_last ? std::int64_t{channel} : channel * s.inputs()};
  }
  ASSAY_DEVICE_MEMBER double Load(const Row& row, const Term& term, bool* there) const {
    const std::int64_t z = row.z + term.z, y = row.y + term.y, x = row.x + term.x;
    *there = z >= 0 && z < s.input[0] && y >= 0 && y < s.input[1] && x >= 0 && x < s.input[2];
    if (!*there) return 0.0;
    const std::int64_t pixel = (z * s.input[1] + y) * s.input[2] + x;
    return Element::At(base, dtype,
                       origin + term.channel + pixel * (s.channels_last ? s.channels : 1));
  }
};

// E and σ of one element, from its sum and from s = Σ|x||w|, which `allowance` holds. `q` is an
// upper bound of Σ(x·w)².
ASSAY_DEVICE void Finish(const ConvReference& c, std::int64_t at, double q) {
  const double r = c.value[at], s = c.allowance[at];
  const bool finite = std::isfinite(r);
  if (c.deviation != nullptr) {
    const double variance = c.sums.Variance(r, q, s) + c.steps.Variance(r);
    c.deviation[at] = finite ? static_cast<float>(std::sqrt(variance)) : 0.0f;
  }
  c.allowance[at] = finite ? c.bound.Allowance(s) : 0.0;
}

template <class Element, bool kAbsolute>
ASSAY_GLOBAL void ASSAY_BOUNDS(kProductThreads, 1) ConvTiles(ConvReference c) {
  ASSAY_SHARED(double, a_tile, kProductShared);
  ASSAY_SHARED(double, b_tile, kProductShared);
  ASSAY_SHARED(unsigned char, gaps, kProductMarks);
  ASSAY_SHARED(std::int64_t, careful, 1);
  ASSAY_SHARED(double, filter_roots, kProductTile);
  ASSAY_SHARED(double, patch_roots, kProductTile);
  const ConvShape& s = c.shape;
  const std::int64_t filters = s.group_filters(), positions = s.positions(), terms = s.terms();
  const std::int64_t row_tiles = (filters + kProductTile - 1) / kProductTile;
  const std::int64_t col_tiles = (positions + kProductTile - 1) / kProductTile;
  const std::int64_t tiles = row_tiles * col_tiles;
  if (Thread().x == 0) careful[0] = 0;  // no step
  auto marks = MarkGaps(gaps, careful);
  for (std::int64_t t = Block().x; t < s.batch * s.groups * tiles; t += GridExtent().x) {
    const std::int64_t image = t / tiles / s.groups, group = t / tiles % s.groups;
    const std::int64_t row0 = t % tiles / col_tiles * kProductTile;
    const std::int64_t col0 = t % col_tiles * kProductTile;
    const StridedRows<Element> weights = {c.w, c.input, group * filters * terms, terms, 1, true};
    const std::int64_t channel0 = group * s.group_channels();
    const PatchRows<Element> patches = {s, c.x, c.input,
                                        s.channels_last
                                            ? image * s.inputs() * s.channels + channel0
                                            : (image * s.channels + channel0) * s.inputs(),
                                        s.channels_last};
    if (kAbsolute && c.deviation != nullptr) {
      FourthPowerRoots(weights, row0, filters, terms, a_tile, filter_roots);
      FourthPowerRoots(patches, col0, positions, terms, b_tile, patch_roots);
    }
    const auto place = [&](std::int64_t row, std::int64_t position) {
      const std::int64_t filter = group * filters + row;
      return s.channels_last ? (image * positions + position) * s.filters + filter
                             : (image * s.filters + filter) * positions + position;
    };
    ProductSums<kAbsolute> sums;
    ProductOfTile(weights, row0, filters, patches, col0, positions, terms, a_tile, b_tile, marks,
                  sums);
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      ASSAY_UNROLL
      for (int j = 0; j < kProductEach; ++j) {
        const std::int64_t row = row0 + sums.Row(i), position = col0 + sums.Col(j);
        if (row >= filters || position >= positions) continue;
        const std::int64_t at = place(row, position);
        c.value[at] = sums.sum[i][j];
        if constexpr (kAbsolute) c.allowance[at] = sums.absolute[i][j];
      }
    }
    if constexpr (kAbsolute) {
      // One by one: sixteen of them in a row would be much of the kernel's code.
      ASSAY_UNROLL_BY(1)
      for (int e = 0; e < kProductEach * kProductEach; ++e) {
        const int i = sums.Row(e / kProductEach), j = sums.Col(e % kProductEach);
        if (row0 + i >= filters || col0 + j >= positions) continue;
        const double q = c.deviation == nullptr ? 0 : filter_roots[i] * patch_roots[j];
        Finish(c, place(row0 + i, col0 + j), q);
      }
      SyncBlock();  // the next tile's roots are written
    }
  }
}

}  // namespace

ErrorCode LaunchConvReference(const ConvReference& c, Stream stream) {
  const ConvShape& s = c.shape;
  const std::int64_t tiles = s.batch * s.groups *
                             ((s.group_filters() + kProductTile - 1) / kProductTile) *
                             ((s.positions() + kProductTile - 1) / kProductTile);
  return ForElement(c.input, [&](auto element) {
    using Element = decltype(element);
    const Extent block{kProductThreads, 1, 1};
    return c.allowance == nullptr
               ? Launch(ConvTiles<Element, false>, RowGrid(tiles), block, 0, stream, c)
               : Launch(ConvTiles<Element, true>, RowGrid(tiles), block, 0, stream, c);
  });
}

}  // namespace assay::kernels::gpu
