// conv: forward convolution (cross-correlation), 1 to 3 spatial dimensions.
//
// Operands, layout "nchw": x [batch, channels, input…], w [filters,
// channels/groups, kernel…], output y [batch, filters, out…]; layout "nhwc":
// x [batch, input…, channels], w [filters, kernel…, channels/groups],
// y [batch, out…, filters]. out = (input + 2·padding − dilation·(kernel − 1) − 1)
// / stride + 1 in each dimension.
// FLOPs: 2·|y|·channels/groups·Π kernel. Accumulations: channels/groups·Π kernel.
#ifndef ASSAY_KERNELS_OPS_CONV_PROBLEM_H_
#define ASSAY_KERNELS_OPS_CONV_PROBLEM_H_

#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct ConvProblem {
  std::int64_t batch = 1;
  std::int64_t channels = 0;
  std::int64_t filters = 0;
  IntList input;  // outermost first
  IntList kernel;
  IntList stride;    // empty: 1; one number: for all dimensions
  IntList padding;   // empty: 0; one number: for all dimensions
  IntList dilation;  // empty: 1; one number: for all dimensions
  std::int64_t groups = 1;
  std::string layout = "nchw";

  static constexpr std::string_view kOp = "conv";
  static std::span<const Field<ConvProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "1x64x56x56 64x3x3 pad 1"

  // For a problem that Check() accepts.
  int spatial() const { return static_cast<int>(input.size()); }
  std::int64_t Stride(int d) const { return At(stride, d, 1); }
  std::int64_t Padding(int d) const { return At(padding, d, 0); }
  std::int64_t Dilation(int d) const { return At(dilation, d, 1); }
  std::int64_t Output(int d) const {
    return (input[static_cast<std::size_t>(d)] + 2 * Padding(d) -
            Dilation(d) * (kernel[static_cast<std::size_t>(d)] - 1) - 1) /
               Stride(d) +
           1;
  }

 private:
  static std::int64_t At(const IntList& v, int d, std::int64_t fallback) {
    if (v.empty()) return fallback;
    return v.size() == 1 ? v[0] : v[static_cast<std::size_t>(d)];
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CONV_PROBLEM_H_
