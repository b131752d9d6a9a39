#include "kernels/ops/conv/conv_probes.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/conv/conv_reference.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

namespace {

// A declared transform may err by 0.25 in sums of whole numbers. Winograd's F(6x6, 3x3) in fp32
// errs by 0.06 if so many products are not 0 (up to 4,096 channels), and by 1.4 in full sums of
// 2,048 channels.
constexpr double kTransformed = 512;

// A step of at least what a filter covers, and prime to the stride: so the windows of the outputs
// lie everywhere about the lattice, and every tap meets some of its pixels.
UnitLattice ConvLattice(const ConvShape& s) {
  UnitLattice u;
  u.height = s.input[1];
  u.width = s.input[2];
  u.channels = s.channels;
  u.group_channels = s.group_channels();
  u.channels_last = s.channels_last;
  for (std::size_t d = 0; d < 3; ++d) {
    std::int64_t step = (s.kernel[d] - 1) * s.dilation[d] + 1;
    while (std::gcd(step, s.stride[d]) != 1) ++step;
    u.step[d] = step <= kMostUnitStep ? step : 0;
  }
  return u;
}

bool Fits(const UnitLattice& u) {
  return u.height <= kMostUnitExtent && u.width <= kMostUnitExtent &&
         u.channels <= kMostUnitChannels;
}

// Whether every window has a tap that lies in the image. The sum of another one is 0.
bool EachWindowSeesTheImage(const ConvShape& s) {
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::int64_t o = 0; o < s.output[d]; ++o) {
      const std::int64_t first = o * s.stride[d] - s.padding[d];
      const std::int64_t above = first < 0 ? (-first + s.dilation[d] - 1) / s.dilation[d] : 0;
      if (above >= s.kernel[d] || first + above * s.dilation[d] >= s.input[d]) return false;
    }
  }
  return true;
}

// All pixels are NaN, and so is all of the output: a transform in double, which nobody declares,
// spreads a single NaN over its tile. nan-w: the same of the weights, for a user's kernel.
void AddConvNanProbe(const Case& c, const Plan& plan, const ConvShape& shape,
                     std::vector<KernelProbe>& probes) {
  if (!EachWindowSeesTheImage(shape)) return;
  auto p = std::get<ConvProblem>(c.problem);
  if (IsOurs(c)) {
    constexpr std::int64_t kFewFilters = 8, kFewChannels = 64;
    p.batch = 1;
    p.filters = p.groups * std::min(shape.group_filters(), kFewFilters);
    p.channels = p.groups * std::min(shape.group_channels(), kFewChannels);
  }
  // No other number is 0. The exact reference takes half the time.
  AddNanProbe(c, plan, p, Cat(kAllNan, "/checkerboard"), probes, /*exact=*/!IsOurs(c));
  if (IsOurs(c)) return;
  AddNanProbe(c, plan, p, Cat("checkerboard/", kAllNan), probes, /*exact=*/true, "nan-w");
}

}  // namespace

std::vector<KernelProbe> ConvProbes(const Case& c, const Plan& plan) {
  const ConvShape shape = MakeConvShape(std::get<ConvProblem>(c.problem));
  SumUse use;
  if (Transforms(plan)) use.most_products = kTransformed;
  std::vector<KernelProbe> probes = ProductProbes(c, c.problem, shape.terms(), use);
  AddConvNanProbe(c, plan, shape, probes);
  std::vector<KernelProbe> more =
      SignificandProbes(c, c.problem, "exact-significand-x", "exact-significand-w");
  if (!more.empty() && !Fits(ConvLattice(shape))) {
    more[1].skipped = "the shape is beyond what its data can say";
  }
  std::move(more.begin(), more.end(), std::back_inserter(probes));
  return probes;
}

void SetConvSignificands(const Case& c, Plan& plan) {
  const ConvShape s = MakeConvShape(std::get<ConvProblem>(c.problem));
  const bool of_x = c.significand == 0;
  // Pixels have LargeUnit: products are from 1 to 3.
  const Significands data = SignificandData(c, /*beyond=*/of_x);
  plan.inputs[of_x ? 0 : 1].pattern = data.numbers;
  plan.inputs[of_x ? 1 : 0].pattern = of_x ? UnitRows(data.unit) : UnitPixels(ConvLattice(s));
}

}  // namespace assay::kernels
