// Layer norm and RMS norm as one node of a graph, in its inference phase. Rows are images with as
// many channels as there are columns. Weight and bias are fp32; other formats are refused. The node
// requires both; if the problem has none, they are ones and zeros in the arena.
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

// x, y, epsilon, weight, and bias (not for RMS).
constexpr std::array<std::int64_t, 5> kUids = {1, 2, 3, 4, 5};

class LayerNormKernel final : public Kernel {
 public:
  LayerNormKernel(const LayerNormProblem& p, ExecutionPlan plan, void* ones, void* zeros)
      : p_(p),
        plan_(std::move(plan)),
        ones_(ones),
        zeros_(zeros),
        eps_(static_cast<float>(p.eps)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::array<void*, 5> data = {inputs[0].data, output.data, &eps_,
                                       p_.affine ? inputs[1].data : ones_,
                                       p_.affine && !p_.rms ? inputs[2].data : zeros_};
    const std::size_t count = p_.rms ? 4 : 5;
    return plan_.Run(std::span(kUids).first(count), std::span(data).first(count));
  }
  std::string implementation() const override { return plan_.text(); }

 private:
  const LayerNormProblem p_;
  ExecutionPlan plan_;
  void* const ones_;
  void* const zeros_;
  float eps_;
};

}  // namespace

Descriptor cudnn::LayerNormOperation(const LayerNormProblem& p, cudnnDataType_t type,
                                     const Extents& x, const Extents& y) {
  const auto rows = [&](std::int64_t uid, const Extents& e) {
    return cudnn::Tensor(uid, type, {e.rows, e.cols, 1, 1}, {e.ld, 1, e.ld, e.ld});
  };
  const auto columns = [&](std::int64_t uid) {
    return cudnn::Tensor(uid, CUDNN_DATA_FLOAT, {1, p.cols, 1, 1}, {p.cols, 1, p.cols, p.cols});
  };
  const Descriptor from = rows(kUids[0], x), to = rows(kUids[1], y);
  const Descriptor eps = cudnn::HostScalar(kUids[2]);
  const Descriptor weight = columns(kUids[3]), bias = columns(kUids[4]);
  Descriptor operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  operation
      .Set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE,
           p.rms ? CUDNN_RMS_NORM : CUDNN_LAYER_NORM)
      .Set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, CUDNN_NORM_FWD_INFERENCE)
      .Set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, from)
      .Set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, weight)
      .Set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, eps)
      .Set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, to);
  if (!p.rms) operation.Set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, bias);
  operation.Finalize();
  return operation;
}

namespace {

// Makes a row of `value` in the arena.
absl::StatusOr<void*> Constant(std::int64_t cols, float value, Device& device) {
  const std::vector<float> row(static_cast<std::size_t>(cols), value);
  const auto bytes = static_cast<std::int64_t>(row.size() * sizeof(float));
  const absl::StatusOr<Block> block = device.arena().Allocate(bytes, /*guarded=*/true);
  if (!block.ok()) return block.status();
  if (absl::Status s = device.FromHost(row.data(), bytes, block->data); !s.ok()) return s;
  return block->data;
}

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<LayerNormProblem>(c.problem);
  if (const auto& api = cudnn::Load(); !api.ok()) return api.status();
  if (p.compensated) {
    return absl::UnimplementedError(
        "cuDNN's layer norm has no compensated sums (layer_norm.compensated)");
  }
  const absl::StatusOr<cudnnDataType_t> type = cudnn::TypeOf(c.dtype);
  if (!type.ok()) return type.status();
  if (plan.output.dtype != c.dtype) {
    return absl::UnimplementedError(Cat("cuDNN's layer norm here writes the format it reads, ",
                                        Name(c.dtype), "; got ", Name(plan.output.dtype)));
  }
  if (p.affine && plan.inputs[1].dtype != DType::kF32) {
    return absl::UnimplementedError(Cat(
        "cuDNN's layer norm here takes weight and bias in fp32; got ", Name(plan.inputs[1].dtype)));
  }
  const Descriptor operation =
      cudnn::LayerNormOperation(p, *type, plan.inputs[0].extents, plan.output.extents);
  absl::StatusOr<ExecutionPlan> made = ExecutionPlan::Make({&operation, 1}, {}, device);
  if (!made.ok()) return made.status();
  absl::StatusOr<void*> ones = nullptr, zeros = nullptr;
  if (!p.affine) {
    ones = Constant(p.cols, 1, device);
    if (ones.ok() && !p.rms) zeros = Constant(p.cols, 0, device);
    if (!ones.ok()) return ones.status();
    if (!zeros.ok()) return zeros.status();
  }
  return std::make_unique<LayerNormKernel>(p, *std::move(made), *ones, *zeros);
}

}  // namespace

KernelEntry CudnnLayerNorm(std::string_view backend) {
  return cudnn::Entry("layer_norm", backend, {DType::kF32, DType::kF16, DType::kBF16}, &Make);
}

}  // namespace assay::kernels
