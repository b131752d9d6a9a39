// The right output of a convolution, and how far a right kernel may be from it.
//
//   r = Σ x·w over the taps inside the input
//   E = min(8·√K·u, γ_(K+8))·Σ|x||w| + K·η/2      K = channels/groups·Π kernel
// counted twice for fp64, and 0 where r is not finite.
#ifndef ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_H_
#define ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_H_

#include <array>
#include <cstdint>
#include <span>

#include "kernels/ops/conv/problem.h"
#include "kernels/ops/op.h"

namespace assay {

// A convolution of 1 to 3 dimensions as one of 3, leading extents 1.
struct ConvShape {
  std::int64_t batch, channels, filters, groups;
  std::array<std::int64_t, 3> input, kernel, stride, padding, dilation, output;
  bool channels_last;

  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_filters() const { return filters / groups; }
  std::int64_t inputs() const { return input[0] * input[1] * input[2]; }
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t positions() const { return output[0] * output[1] * output[2]; }
  // Length of the sum behind an element.
  std::int64_t terms() const { return group_channels() * taps(); }
};

ConvShape MakeConvShape(const ConvProblem& problem);

// r and E of some output elements, by plain loops; allowance is left alone for
// integers.
void ConvReferenceAt(const ConvProblem& problem, DType input, bool flushes_subnormals,
                     const HostInputs& inputs, std::span<const std::int64_t> indices, double* value,
                     double* allowance);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_H_
