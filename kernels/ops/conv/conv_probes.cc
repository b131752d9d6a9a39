#include "kernels/ops/conv/conv_probes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/conv/conv_reference.h"

namespace assay {

std::vector<KernelProbe> ConvProbes(const Case& c) {
  const ConvShape shape = MakeConvShape(std::get<ConvProblem>(c.problem));
  std::vector<KernelProbe> probes = ProductProbes(c, c.problem, shape.terms(), SumUse{});
  std::vector<KernelProbe> more =
      SignificandProbes(c, c.problem, "exact-significand-x", "exact-significand-w");
  if (!more.empty() && shape.channels > kMostUnitChannels) {
    more[1].skipped = "the shape is beyond what its data can say";
  }
  std::move(more.begin(), more.end(), std::back_inserter(probes));
  return probes;
}

std::int64_t PixelDistance(const ConvShape& s) {
  // Between the first and the last pixel under a filter, in memory order.
  std::int64_t last = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    last = last * s.input[d] + (s.kernel[d] - 1) * s.dilation[d];
  }
  // Odd, and no multiple of a row, so that the 1s fall on all taps, with even strides too.
  std::int64_t distance = (last + 1) | 1;
  const std::int64_t row = s.input[2];
  if (row > 1 && distance % row == 0) distance += 2;
  return distance;
}

void SetConvSignificands(const Case& c, Plan& plan) {
  const ConvShape s = MakeConvShape(std::get<ConvProblem>(c.problem));
  const bool of_x = c.significand == 0;
  plan.inputs[of_x ? 0 : 1].pattern = kFullSignificands;
  plan.inputs[of_x ? 1 : 0].pattern =
      of_x ? UnitRows()
           : UnitPixels(PixelDistance(s), s.channels, s.group_channels(), s.channels_last);
}

}  // namespace assay
