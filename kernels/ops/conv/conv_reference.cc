#include "kernels/ops/conv/conv_reference.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/common/dot.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/vector_cache.h"

namespace assay::inline kernels {
namespace {

// Where an output element lies.
struct Place {
  std::int64_t image, filter, position;
};

Place PlaceOf(const ConvShape& s, std::int64_t index) {
  const std::int64_t image = index / (s.filters * s.positions());
  const std::int64_t rest = index % (s.filters * s.positions());
  if (s.channels_last) return {image, rest % s.filters, rest / s.filters};
  return {image, rest / s.positions(), rest % s.positions()};
}

// The input pixel under a tap of an output position, or -1 outside the input.
std::int64_t PixelUnder(const ConvShape& s, std::int64_t position, std::int64_t tap) {
  const std::array<std::int64_t, 3> at = {position / (s.output[1] * s.output[2]),
                                          position / s.output[2] % s.output[1],
                                          position % s.output[2]};
  const std::array<std::int64_t, 3> k = {tap / (s.kernel[1] * s.kernel[2]),
                                         tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
  std::int64_t pixel = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t i = at[d] * s.stride[d] - s.padding[d] + k[d] * s.dilation[d];
    if (i < 0 || i >= s.input[d]) return -1;
    pixel = pixel * s.input[d] + i;
  }
  return pixel;
}

// The inputs under the taps of one output position of one group, in the order of
// a filter's weights; 0 outside the input.
void ReadPatch(const ConvShape& s, const HostInputs& inputs, std::int64_t image,
               std::int64_t position, std::int64_t group, double* patch) {
  const std::int64_t channels = s.group_channels();
  for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
    const std::int64_t pixel = PixelUnder(s, position, tap);
    for (std::int64_t c = 0; c < channels; ++c) {
      double* to = s.channels_last ? patch + tap * channels + c : patch + c * s.taps() + tap;
      *to = 0.0;
      if (pixel < 0) continue;
      const std::int64_t channel = group * channels + c;
      if (s.channels_last) {
        inputs.Read(0, (image * s.inputs() + pixel) * s.channels + channel, channels, to);
        break;
      }
      inputs.Read(0, (image * s.channels + channel) * s.inputs() + pixel, 1, to);
    }
  }
}

// The patches and the filters behind some output elements.
struct Vectors {
  VectorCache patches, filters;
};

Vectors ReadBoth(const ConvShape& s, const HostInputs& inputs,
                 std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> patch_ids, filter_ids;
  for (std::int64_t index : indices) {
    const Place place = PlaceOf(s, index);
    patch_ids.push_back((place.image * s.positions() + place.position) * s.groups +
                        place.filter / s.group_filters());
    filter_ids.push_back(place.filter);
  }
  Vectors v = {VectorCache(patch_ids, s.terms()), VectorCache(filter_ids, s.terms())};
  for (std::size_t i = 0; i < v.patches.ids().size(); ++i) {
    const std::int64_t id = v.patches.ids()[i];
    ReadPatch(s, inputs, id / s.groups / s.positions(), id / s.groups % s.positions(),
              id % s.groups, v.patches.vector(i));
  }
  for (std::size_t i = 0; i < v.filters.ids().size(); ++i) {
    inputs.Read(1, v.filters.ids()[i] * s.terms(), s.terms(), v.filters.vector(i));
  }
  return v;
}

}  // namespace

ConvShape MakeConvShape(const ConvProblem& problem) {
  ConvShape s{};
  s.batch = problem.batch;
  s.channels = problem.channels;
  s.filters = problem.filters;
  s.groups = problem.groups;
  s.input = s.kernel = s.stride = s.dilation = s.output = {1, 1, 1};
  s.padding = {0, 0, 0};
  s.channels_last = problem.layout == "nhwc";
  const int first = 3 - problem.spatial();
  for (int d = 0; d < problem.spatial(); ++d) {
    const std::size_t to = static_cast<std::size_t>(first) + static_cast<std::size_t>(d);
    const std::size_t from = static_cast<std::size_t>(d);
    s.input[to] = problem.input[from];
    s.kernel[to] = problem.kernel[from];
    s.stride[to] = problem.Stride(d);
    s.padding[to] = problem.Padding(d);
    s.dilation[to] = problem.Dilation(d);
    s.output[to] = problem.Output(d);
  }
  return s;
}

void ConvReferenceAt(const ConvProblem& problem, DType input, bool flushes_subnormals,
                     const HostInputs& inputs, std::span<const std::int64_t> indices, double* value,
                     double* allowance, const Accumulator& accumulator) {
  const ConvShape s = MakeConvShape(problem);
  const std::int64_t terms = s.terms();
  Vectors vectors = ReadBoth(s, inputs, indices);
  VectorCache& patches = vectors.patches;
  VectorCache& filters = vectors.filters;
  bool finite = true;
  for (std::size_t i = 0; i < filters.ids().size(); ++i) {
    finite = finite && std::all_of(filters.vector(i), filters.vector(i) + terms,
                                   [](double w) { return std::isfinite(w); });
  }

  const auto tap_of = [&](std::int64_t term) {
    return s.channels_last ? term / s.group_channels() : term % s.taps();
  };
  const ProductBound bound = MakeProductBound(input, terms, flushes_subnormals, accumulator);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    DotSums sums;
    if (finite) {
      sums = Dot(patches.of(i), filters.of(i), terms);
    } else {
      // Padding is no element of x: an infinite weight there makes no NaN.
      const std::int64_t position = PlaceOf(s, indices[i]).position;
      std::vector<bool> inside(static_cast<std::size_t>(s.taps()));
      for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
        inside[static_cast<std::size_t>(tap)] = PixelUnder(s, position, tap) >= 0;
      }
      for (std::int64_t t = 0; t < terms; ++t) {
        if (!inside[static_cast<std::size_t>(tap_of(t))]) continue;
        const double product = patches.of(i)[t] * filters.of(i)[t];
        sums.sum += product;
        sums.absolute += std::abs(product);
      }
    }
    value[i] = sums.sum;
    if (input != DType::kI8 && allowance != nullptr) {
      allowance[i] = std::isfinite(sums.sum) ? bound.Allowance(sums.absolute) : 0.0;
    }
  }
}

SampledProducts ConvProducts(const ConvProblem& problem, DType input, const HostInputs& inputs,
                             std::span<const std::int64_t> indices) {
  const ConvShape s = MakeConvShape(problem);
  Vectors vectors = ReadBoth(s, inputs, indices);
  SampledProducts products;
  products.format = input;
  products.terms = s.terms();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    products.elements.push_back({vectors.patches.slot(i), vectors.filters.slot(i), 1.0});
  }
  products.left = {"x", vectors.patches.TakeVectors()};
  products.right = {"w", vectors.filters.TakeVectors()};
  return products;
}

}  // namespace assay::kernels
