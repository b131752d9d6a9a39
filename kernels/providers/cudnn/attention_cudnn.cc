// Attention by one node of a graph, scaled dot-product attention forward (cuDNN 9.13 and
// later): softmax(scale·Q·Kᵀ)·V, scores and sums in fp32, probabilities rounded to the
// inputs' format before the second product, as flash attention does. Grouped queries are
// the library's own. The node by itself has no mask.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/numerics/cat.h"
#include "kernels/providers/cudnn/cudnn.h"
#include "kernels/providers/cudnn/graph.h"
#include "kernels/providers/cudnn/operations.h"
#include "kernels/providers/refusals.h"

namespace assay {
namespace {

using cudnn::Descriptor;
using cudnn::ExecutionPlan;

constexpr std::array<std::int64_t, 5> kUids = {1, 2, 3, 4, 5};  // q, k, v, o, scale

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(ExecutionPlan plan, float scale) : plan_(std::move(plan)), scale_(scale) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::array<void*, 5> data = {inputs[0].data, inputs[1].data, inputs[2].data, output.data,
                                       &scale_};
    return plan_.Run(kUids, data);
  }
  std::string implementation() const override { return plan_.text(); }

 private:
  ExecutionPlan plan_;
  float scale_;
};

}  // namespace

Descriptor cudnn::AttentionOperation(const AttentionProblem& p, cudnnDataType_t type) {
  const auto heads = [&](std::int64_t uid, std::int64_t count, std::int64_t length) {
    return cudnn::Tensor(uid, type, {p.batch, count, length, p.dim},
                         {count * length * p.dim, length * p.dim, p.dim, 1});
  };
  const Descriptor q = heads(kUids[0], p.heads, p.seq);
  const Descriptor k = heads(kUids[1], p.KvHeads(), p.KvSeq());
  const Descriptor v = heads(kUids[2], p.KvHeads(), p.KvSeq());
  const Descriptor o = heads(kUids[3], p.heads, p.seq);
  const Descriptor scale = cudnn::HostScalar(kUids[4]);
  Descriptor operation(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q)
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k)
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v)
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, o)
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale)
      .Finalize();
  return operation;
}

namespace {

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  if (const auto& api = cudnn::Load(); !api.ok()) return api.status();
  if (absl::Status s = RefuseAttentionScales(p, "cuDNN attention"); !s.ok()) return s;
  if (p.causal || p.masked()) {
    return absl::UnimplementedError(Cat("cuDNN's attention node has no mask; got attention.causal ",
                                        p.causal ? "true" : "false", ", attention.mask_density ",
                                        p.mask_density));
  }
  const absl::StatusOr<cudnnDataType_t> type = cudnn::TypeOf(c.dtype);
  if (!type.ok()) return type.status();
  if (plan.output.dtype != c.dtype) {
    return absl::UnimplementedError(Cat("cuDNN's attention writes the format it reads, ",
                                        Name(c.dtype), "; got ", Name(plan.output.dtype)));
  }
  absl::StatusOr<ExecutionPlan> made =
      ExecutionPlan::Make(cudnn::AttentionOperation(p, *type), {}, device);
  if (!made.ok()) return made.status();
  return std::make_unique<AttentionKernel>(*std::move(made), static_cast<float>(p.Scale(c.dtype)));
}

}  // namespace

KernelEntry CudnnAttention(std::string_view backend) {
  return cudnn::Entry("attention", backend, {DType::kF16, DType::kBF16}, &Make);
}

}  // namespace assay
