// Forward convolution (cross-correlation, like the problem) as one node of a graph. A
// one-dimensional problem gets an outer dimension of extent 1.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/providers/cudnn/cudnn.h"
#include "kernels/providers/cudnn/graph.h"
#include "kernels/providers/cudnn/operations.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using cudnn::Descriptor;
using cudnn::ExecutionPlan;

constexpr std::array<std::int64_t, 3> kUids = {1, 2, 3};  // x, w, y

class ConvKernel final : public Kernel {
 public:
  explicit ConvKernel(ExecutionPlan plan) : plan_(std::move(plan)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::array<void*, 3> data = {inputs[0].data, inputs[1].data, output.data};
    return plan_.Run(kUids, data);
  }
  // Tensor cores cut off; which block and how many further bits they have is not published. The
  // library may choose plain arithmetic, and does not say so.
  Accumulator accumulator() const override {
    return {.truncation = {.roundoff = kTruncatedRoundoff}};
  }
  std::string implementation() const override { return plan_.text(); }

 private:
  ExecutionPlan plan_;
};

// [lead, channels, spatial…], in the memory order of the layout.
Descriptor ImageTensor(std::int64_t uid, cudnnDataType_t type, std::int64_t lead,
                       std::int64_t channels, const std::vector<std::int64_t>& spatial,
                       bool channels_last) {
  std::vector<std::int64_t> dims = {lead, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  std::vector<std::int64_t> strides(dims.size());
  std::int64_t step = 1;
  if (channels_last) {
    strides[1] = step;
    step *= channels;
  }
  for (std::size_t d = dims.size() - 1; d >= 2; --d) {
    strides[d] = step;
    step *= dims[d];
  }
  if (!channels_last) {
    strides[1] = step;
    step *= channels;
  }
  strides[0] = step;
  return cudnn::Tensor(uid, type, dims, strides);
}

}  // namespace

Descriptor cudnn::ConvOperation(const ConvProblem& p, DType in, cudnnDataType_t from,
                                cudnnDataType_t to) {
  const bool flat = p.spatial() == 1;
  const auto spatial = [&](auto of, std::int64_t outer) {
    std::vector<std::int64_t> v;
    if (flat) v.push_back(outer);
    for (int d = 0; d < p.spatial(); ++d) v.push_back(of(d));
    return v;
  };
  const auto at = [](int d) { return static_cast<std::size_t>(d); };
  const bool last = p.layout == "nhwc";
  const Descriptor x = ImageTensor(kUids[0], from, p.batch, p.channels,
                                   spatial([&](int d) { return p.input[at(d)]; }, 1), last);
  const Descriptor w = ImageTensor(kUids[1], from, p.filters, p.channels / p.groups,
                                   spatial([&](int d) { return p.kernel[at(d)]; }, 1), last);
  const Descriptor y = ImageTensor(kUids[2], to, p.batch, p.filters,
                                   spatial([&](int d) { return p.Output(d); }, 1), last);
  const bool wide = in == DType::kF64;
  const auto padding = spatial([&](int d) { return p.Padding(d); }, 0);
  const std::int64_t dimensions = static_cast<std::int64_t>(padding.size());
  Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  conv.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, dimensions)
      .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
           wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
      .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
      .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial([&](int d) { return p.Stride(d); }, 1))
      .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial([&](int d) { return p.Dilation(d); }, 1))
      .Finalize();

  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv);
  if (wide) {
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_DOUBLE, 1.0)
        .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_DOUBLE, 0.0);
  } else {
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0F)
        .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0F);
  }
  operation.Finalize();
  return operation;
}

namespace {

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<ConvProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (const auto& api = cudnn::Load(); !api.ok()) return api.status();
  const absl::StatusOr<cudnnDataType_t> from = cudnn::TypeOf(c.dtype);
  const absl::StatusOr<cudnnDataType_t> to = cudnn::TypeOf(out);
  if (!from.ok()) return from.status();
  if (!to.ok()) return to.status();
  const Descriptor operation = cudnn::ConvOperation(p, c.dtype, *from, *to);
  absl::StatusOr<ExecutionPlan> made =
      ExecutionPlan::Make({&operation, 1}, {.tensor_cores = c.dtype != DType::kF32}, device);
  if (!made.ok()) return made.status();
  return std::make_unique<ConvKernel>(*std::move(made));
}

}  // namespace

KernelEntry CudnnConv(std::string_view backend) {
  return cudnn::Entry("conv", backend,
                      {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16}, &Make);
}

}  // namespace assay::kernels
