// A convolution of one image and group is a product of its filters and patches:
// [filters, terms] by [terms, positions] for channels-first outputs, the other way
// round for channels-last ones, so that the product lies as the output does.
// Patches are never stored: they are made as they are packed.
#include "kernels/ops/conv/conv_reference_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/exact_product.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/conv/conv_reference.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

// Elements as doubles, quickly for the formats that convolutions have: a type stands
// for each, Code for the 8-bit floats.
template <DType kType>
struct Element {
  static double At(const void* base, const double* /*values*/, std::int64_t i) {
    if constexpr (kType == DType::kF64) return static_cast<const double*>(base)[i];
    if constexpr (kType == DType::kF32) {
      return static_cast<double>(static_cast<const float*>(base)[i]);
    }
    return LoadDouble(kType, base, i);
  }
};
struct Code {
  static double At(const void* base, const double* values, std::int64_t i) {
    return values[static_cast<const std::uint8_t*>(base)[i]];
  }
};

// Rows are output positions, k runs over the terms in the order of the weights.
class PatchSource final : public PanelSource {
 public:
  PatchSource(const ConvShape& shape, DType dtype, const void* base, std::int64_t image,
              std::int64_t group)
      : s_(shape),
        dtype_(dtype),
        base_(base),
        values_(ValuesOfCodes(dtype)),
        origin_(shape.channels_last
                    ? image * shape.inputs() * shape.channels + group * shape.group_channels()
                    : (image * shape.channels + group * shape.group_channels()) * shape.inputs()) {}

  void Pack(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
            std::int64_t width, double* dst) const override {
    switch (dtype_) {
      case DType::kF64:
        return PackAs<Element<DType::kF64>>(r0, rows, k0, kc, width, dst);
      case DType::kF32:
      case DType::kTF32:  // a float32 word
        return PackAs<Element<DType::kF32>>(r0, rows, k0, kc, width, dst);
      case DType::kF16:
        return PackAs<Element<DType::kF16>>(r0, rows, k0, kc, width, dst);
      case DType::kBF16:
        return PackAs<Element<DType::kBF16>>(r0, rows, k0, kc, width, dst);
      case DType::kI8:
        return PackAs<Element<DType::kI8>>(r0, rows, k0, kc, width, dst);
      default:
        return PackAs<Code>(r0, rows, k0, kc, width, dst);
    }
  }

 private:
  // Where the first tap of a position lies, padding included.
  struct Corner {
    std::int64_t z, y, x;
  };

  template <class Format>
  void PackAs(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
              std::int64_t width, double* dst) const {
    static thread_local std::vector<Corner> corners;
    corners.resize(static_cast<std::size_t>(rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = r0 + r;
      corners[static_cast<std::size_t>(r)] = {
          at / (s_.output[1] * s_.output[2]) * s_.stride[0] - s_.padding[0],
          at / s_.output[2] % s_.output[1] * s_.stride[1] - s_.padding[1],
          at % s_.output[2] * s_.stride[2] - s_.padding[2]};
    }
    const std::int64_t pixel_step = s_.channels_last ? s_.channels : 1;
    const std::int64_t channel_step = s_.channels_last ? 1 : s_.inputs();
    const std::int64_t panels = (rows + width - 1) / width;
    for (std::int64_t i = 0; i < kc; ++i) {
      const std::int64_t term = k0 + i;
      const std::int64_t tap = s_.channels_last ? term / s_.group_channels() : term % s_.taps();
      const std::int64_t channel = s_.channels_last ? term % s_.group_channels() : term / s_.taps();
      const std::int64_t dz = tap / (s_.kernel[1] * s_.kernel[2]) * s_.dilation[0];
      const std::int64_t dy = tap / s_.kernel[2] % s_.kernel[1] * s_.dilation[1];
      const std::int64_t dx = tap % s_.kernel[2] * s_.dilation[2];
      const std::int64_t base = origin_ + channel * channel_step;
      for (std::int64_t p = 0; p < panels; ++p) {
        double* to = dst + (p * kc + i) * width;
        const std::int64_t here = std::min(width, rows - p * width);
        const Corner& first = corners[static_cast<std::size_t>(p * width)];
        const Corner& last = corners[static_cast<std::size_t>(p * width + here - 1)];
        // Positions of one line, of which no tap lies in the padding.
        if (s_.stride[2] == 1 && first.z == last.z && first.y == last.y &&
            Below(first.z + dz, s_.input[0]) && Below(first.y + dy, s_.input[1]) &&
            Below(first.x + dx, s_.input[2]) && Below(last.x + dx, s_.input[2])) {
          const std::int64_t pixel =
              ((first.z + dz) * s_.input[1] + first.y + dy) * s_.input[2] + first.x + dx;
          for (std::int64_t w = 0; w < here; ++w) {
            to[w] = Format::At(base_, values_, base + (pixel + w) * pixel_step);
          }
          std::fill(to + here, to + width, 0.0);
          continue;
        }
        for (std::int64_t w = 0; w < here; ++w) {
          const Corner& c = corners[static_cast<std::size_t>(p * width + w)];
          const std::int64_t z = c.z + dz, y = c.y + dy, x = c.x + dx;
          // One comparison a dimension: what is below 0 is large as unsigned.
          const bool inside =
              Below(z, s_.input[0]) && Below(y, s_.input[1]) && Below(x, s_.input[2]);
          to[w] = inside ? Format::At(base_, values_,
                                      base + ((z * s_.input[1] + y) * s_.input[2] + x) * pixel_step)
                         : 0.0;
        }
        std::fill(to + here, to + width, 0.0);
      }
    }
  }

  static bool Below(std::int64_t i, std::int64_t n) {
    return static_cast<std::uint64_t>(i) < static_cast<std::uint64_t>(n);
  }

  const ConvShape& s_;
  const DType dtype_;
  const void* base_;
  const double* values_;  // of codes, where the format has a table
  const std::int64_t origin_;
};

bool IsPadded(const ConvShape& s) {
  return std::any_of(s.padding.begin(), s.padding.end(), [](std::int64_t p) { return p > 0; });
}

bool AllFinite(const TensorView& view) {
  std::vector<double> line(static_cast<std::size_t>(view.extents.cols));
  double sum = 0.0;  // of w·0: NaN if there is an Inf or NaN
  for (std::int64_t row = 0; row < view.extents.rows; ++row) {
    LoadDoubles(view.dtype, view.data, row * view.extents.ld, view.extents.cols, line.data());
    for (double w : line) sum += w * 0.0;
  }
  return sum == 0.0;
}

bool AllNan(const TensorView& view) {
  std::vector<double> line(static_cast<std::size_t>(view.extents.cols));
  for (std::int64_t row = 0; row < view.extents.rows; ++row) {
    LoadDoubles(view.dtype, view.data, row * view.extents.ld, view.extents.cols, line.data());
    if (!std::all_of(line.begin(), line.end(), [](double w) { return std::isnan(w); }))
      return false;
  }
  return true;
}

// sums[position] = Σ powers[pixel] over the taps inside the input.
void SumOverTaps(const ConvShape& s, const std::vector<double>& powers, double* sums) {
  const std::int64_t across = s.output[1] * s.output[2];
  for (std::int64_t at = 0; at < s.positions(); ++at) {
    const std::int64_t z0 = at / across * s.stride[0] - s.padding[0];
    const std::int64_t y0 = at / s.output[2] % s.output[1] * s.stride[1] - s.padding[1];
    const std::int64_t x0 = at % s.output[2] * s.stride[2] - s.padding[2];
    double sum = 0;
    for (std::int64_t i = 0; i < s.kernel[0]; ++i) {
      const std::int64_t z = z0 + i * s.dilation[0];
      if (z < 0 || z >= s.input[0]) continue;
      for (std::int64_t j = 0; j < s.kernel[1]; ++j) {
        const std::int64_t y = y0 + j * s.dilation[1];
        if (y < 0 || y >= s.input[1]) continue;
        for (std::int64_t k = 0; k < s.kernel[2]; ++k) {
          const std::int64_t x = x0 + k * s.dilation[2];
          if (x < 0 || x >= s.input[2]) continue;
          sum += powers[static_cast<std::size_t>((z * s.input[1] + y) * s.input[2] + x)];
        }
      }
    }
    sums[at] = sum;
  }
}

// The output if all weights are NaN: NaN, and 0 where the whole window lies in the padding.
void FillFromNanWeights(const ConvShape& s, const ProductBound& bound, double* value,
                        double* allowance) {
  const std::int64_t positions = s.positions();
  std::vector<double> inside(static_cast<std::size_t>(positions));  // taps
  SumOverTaps(s, std::vector<double>(static_cast<std::size_t>(s.inputs()), 1.0), inside.data());
  const std::int64_t step = s.channels_last ? s.filters : 1;  // between positions
  for (std::int64_t i = 0; i < s.batch * s.filters * positions; ++i) {
    const bool sees = inside[static_cast<std::size_t>(i / step % positions)] > 0;
    value[i] = sees ? std::numeric_limits<double>::quiet_NaN() : 0.0;
    if (allowance != nullptr) allowance[i] = sees ? 0.0 : bound.Allowance(0.0);
  }
}

// √Σx⁴ of the patch of each position of each image and group, [images, groups, positions]. A
// pixel's fourth powers are summed over its channels once, and then over the taps of each patch.
std::vector<double> RootsOfPatches(const ConvShape& s, const TensorView& x) {
  const std::int64_t positions = s.positions(), pixels = s.inputs();
  std::vector<double> roots(static_cast<std::size_t>(s.batch * s.groups * positions));
  ParallelFor(s.batch * s.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> powers(static_cast<std::size_t>(pixels));
    std::vector<double> line(static_cast<std::size_t>(std::max(pixels, s.group_channels())));
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t image = part / s.groups, channel0 = part % s.groups * s.group_channels();
      std::fill(powers.begin(), powers.end(), 0.0);
      const auto fourth = [](double v) { return v * v * v * v; };
      if (s.channels_last) {
        for (std::int64_t p = 0; p < pixels; ++p) {
          LoadDoubles(x.dtype, x.data, (image * pixels + p) * s.channels + channel0,
                      s.group_channels(), line.data());
          for (std::int64_t c = 0; c < s.group_channels(); ++c) {
            powers[static_cast<std::size_t>(p)] += fourth(line[static_cast<std::size_t>(c)]);
          }
        }
      } else {
        for (std::int64_t c = 0; c < s.group_channels(); ++c) {
          LoadDoubles(x.dtype, x.data, (image * s.channels + channel0 + c) * pixels, pixels,
                      line.data());
          for (std::size_t p = 0; p < powers.size(); ++p) powers[p] += fourth(line[p]);
        }
      }
      SumOverTaps(s, powers, roots.data() + part * positions);
    }
  });
  for (double& root : roots) root = std::sqrt(root);
  return roots;
}

// √Σw⁴ of each filter.
std::vector<double> RootsOfFilters(const ConvShape& s, DType input, const TensorView& w) {
  std::vector<double> roots(static_cast<std::size_t>(s.filters));
  const StridedSource all(input, w.data, 0, s.terms(), 1);
  SumFourthPowers(all, s.filters, s.terms(), roots.data());
  for (double& root : roots) root = std::sqrt(root);
  return roots;
}

struct Roots {
  std::vector<double> patches, filters;
};

Roots RootsOf(const ConvShape& s, DType input, std::span<const TensorView> inputs) {
  return {RootsOfPatches(s, inputs[0]), RootsOfFilters(s, input, inputs[1])};
}

// r, E and σ of a tile. Its parts are finished while they are in the cache.
void FinishedProduct(const PanelSource& a, const PanelSource& b, std::int64_t terms,
                     const ProductTile& tile, const ProductBound& bound, const TileDeviations& to,
                     double* r, double* e, std::int64_t ld) {
  PackedProduct(a, b, terms, tile, r, e, ld, [&](const ProductTile& part) {
    const std::int64_t down = part.row0 - tile.row0, right = part.col0 - tile.col0;
    const std::int64_t at = down * ld + right;
    TileDeviations of_part = to;
    if (to.deviation != nullptr) {
      of_part.rows += down;
      of_part.columns += right;
      of_part.deviation += at;
    }
    FinishTile(bound, part.rows, part.cols, ld, r + at, e + at, of_part);
  });
}

}  // namespace

void ConvReferenceCpu(const ConvProblem& problem, DType input, bool flushes_subnormals,
                      std::span<const TensorView> inputs, double* value, double* allowance,
                      double largest, const Accumulator& accumulator, float* deviation,
                      DType output) {
  const ConvShape s = MakeConvShape(problem);
  const ProductBound bound = MakeProductBound(input, s.terms(), flushes_subnormals, accumulator);
  if (IsPadded(s) && !AllFinite(inputs[1])) {
    // Where a tap lies in the padding, a product would take 0·inf. The plain loops know better, but
    // take long.
    const std::int64_t count = s.batch * s.filters * s.positions();
    if (AllNan(inputs[1])) {
      FillFromNanWeights(s, bound, value, allowance);
    } else {
      ConvReferenceAt(problem, input, flushes_subnormals, ViewInputs(inputs), AllIndices(count),
                      value, allowance, accumulator);
    }
    if (deviation != nullptr) std::fill_n(deviation, count, 0.0f);
    return;
  }
  const SumModel sums = MakeSumModel(input, s.terms(), AccumulatorOf(input, accumulator));
  Roots roots;
  if (deviation != nullptr) roots = RootsOf(s, input, inputs);
  const std::int64_t filters = s.group_filters(), positions = s.positions();
  const std::int64_t m = s.channels_last ? positions : filters;
  const std::int64_t n = s.channels_last ? filters : positions;
  const std::int64_t ld = s.channels_last ? s.filters : positions;
  const std::int64_t col_tiles = (n + kTileCols - 1) / kTileCols;
  const std::int64_t height = TileHeight(m, s.batch * s.groups * col_tiles);
  const std::int64_t tiles = (m + height - 1) / height * col_tiles;
  ParallelForDynamic(s.batch * s.groups * tiles, [&](std::int64_t t) {
    const std::int64_t image = t / tiles / s.groups, group = t / tiles % s.groups;
    const std::int64_t row0 = t % tiles / col_tiles * height;
    const std::int64_t col0 = t % col_tiles * kTileCols;
    const ProductTile tile = {row0, std::min(height, m - row0), col0,
                              std::min(kTileCols, n - col0)};
    const PatchSource patches(s, input, inputs[0].data, image, group);
    const StridedSource weights(input, inputs[1].data, group * filters * s.terms(), s.terms(), 1);
    const std::int64_t at = s.channels_last
                                ? (image * positions + row0) * s.filters + group * filters + col0
                                : (image * s.filters + group * filters + row0) * positions + col0;
    const PanelSource& a = s.channels_last ? static_cast<const PanelSource&>(patches) : weights;
    const PanelSource& b = s.channels_last ? static_cast<const PanelSource&>(weights) : patches;
    if (allowance == nullptr) {
      ExactProduct(a, b, s.terms(), largest, tile, value + at, ld);
      return;
    }
    TileDeviations to = {sums, OutputStepsOf(output), nullptr, nullptr, nullptr};
    if (deviation != nullptr) {
      const double* patch = roots.patches.data() + (image * s.groups + group) * positions;
      const double* filter = roots.filters.data() + group * filters;
      to.rows = (s.channels_last ? patch : filter) + row0;
      to.columns = (s.channels_last ? filter : patch) + col0;
      to.deviation = deviation + at;
    }
    FinishedProduct(a, b, s.terms(), tile, bound, to, value + at, allowance + at, ld);
  });
}

}  // namespace assay::kernels
