// The shape of a convolution as references take it, on host and device. std-only.
#ifndef ASSAY_KERNELS_OPS_CONV_CONV_SHAPE_H_
#define ASSAY_KERNELS_OPS_CONV_CONV_SHAPE_H_

#include <array>
#include <cstdint>

namespace assay::inline kernels {

// A convolution of 1 to 3 dimensions as one of 3, leading extents 1.
struct ConvShape {
  std::int64_t batch, channels, filters, groups;
  std::array<std::int64_t, 3> input, kernel, stride, padding, dilation, output;
  bool channels_last;

  constexpr std::int64_t group_channels() const { return channels / groups; }
  constexpr std::int64_t group_filters() const { return filters / groups; }
  constexpr std::int64_t inputs() const { return input[0] * input[1] * input[2]; }
  constexpr std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  constexpr std::int64_t positions() const { return output[0] * output[1] * output[2]; }
  // Length of the sum behind an element.
  constexpr std::int64_t terms() const { return group_channels() * taps(); }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CONV_CONV_SHAPE_H_
