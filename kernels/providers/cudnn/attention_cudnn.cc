// Attention, softmax(scale·Q·Kᵀ)·V. Scores and sums are fp32. Probabilities are rounded to the
// inputs' format before the second product, as in flash attention. The library itself handles
// grouped queries.
//
// Without a mask the kernel uses the node of scaled dot-product attention (cuDNN 9.13 and later),
// if the library has an engine for it on the device. Otherwise, and for causal problems, it uses
// the graph of products and pointwise operations that the library runs as flash attention.
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <variant>

#include "kernels/providers/cudnn/cudnn.h"
#include "kernels/providers/cudnn/graph.h"
#include "kernels/providers/cudnn/operations.h"
#include "kernels/providers/refusals.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using cudnn::Descriptor;
using cudnn::ExecutionPlan;

// q, k, v, o, scale; if causal, minus infinity; if the lengths differ, the number of keys and the
// number of queries.
constexpr std::array<std::int64_t, 8> kUids = {1, 2, 3, 4, 5, 6, 7, 8};
constexpr std::size_t kPlainUids = 5;

// Before 9.10 the library needs the lowest number for minus infinity (NVIDIA/cudnn-frontend,
// get_negative_inf_value).
constexpr std::size_t kTakesInfinity = 91000;

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const AttentionProblem& p, DType input, ExecutionPlan plan, std::string text)
      : plan_(std::move(plan)),
        text_(std::move(text)),
        uids_(!p.causal            ? kPlainUids
              : p.KvSeq() == p.seq ? kPlainUids + 1
                                   : kUids.size()),
        scale_(static_cast<float>(p.Scale(input))),
        keys_(static_cast<std::int32_t>(p.KvSeq())),
        queries_(static_cast<std::int32_t>(p.seq)) {
    if ((*cudnn::Load())->get_version() < kTakesInfinity) {
      minus_infinity_ = std::numeric_limits<float>::lowest();
    }
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::array<void*, 8> data = {inputs[0].data, inputs[1].data, inputs[2].data,
                                       output.data,    &scale_,        &minus_infinity_,
                                       &keys_,         &queries_};
    return plan_.Run(std::span(kUids).first(uids_), std::span(data).first(uids_));
  }
  // Tensor cores cut off; which block and how many further bits they have is not published. The
  // library may choose plain arithmetic, and does not say so.
  Accumulator accumulator() const override {
    return {.truncation = {.roundoff = kTruncatedRoundoff}};
  }
  std::string implementation() const override { return text_; }

 private:
  ExecutionPlan plan_;
  const std::string text_;
  const std::size_t uids_;  // the number of uids in the graph
  float scale_;
  float minus_infinity_ = -std::numeric_limits<float>::infinity();
  std::int32_t keys_;
  std::int32_t queries_;
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
  if (p.masked()) {
    return absl::UnimplementedError(
        Cat("cuDNN's attention has no mask of single pairs; got attention.mask_density ",
            p.mask_density));
  }
  if (p.causal && p.KvSeq() < p.seq) {
    return absl::UnimplementedError(
        Cat("cuDNN's causal attention wants attention.seq at most attention.kv_seq: the first "
            "queries would see no key; got ",
            p.seq, " and ", p.KvSeq()));
  }
  const absl::StatusOr<cudnnDataType_t> type = cudnn::TypeOf(c.dtype);
  if (!type.ok()) return type.status();
  if (plan.output.dtype != c.dtype) {
    return absl::UnimplementedError(Cat("cuDNN's attention writes the format it reads, ",
                                        Name(c.dtype), "; got ", Name(plan.output.dtype)));
  }
  absl::Status refused;
  if (!p.causal) {
    const Descriptor node = cudnn::AttentionOperation(p, *type);
    absl::StatusOr<ExecutionPlan> made = ExecutionPlan::Make({&node, 1}, {}, device);
    if (made.ok()) {
      std::string text = Cat(made->text(), ", one node");
      return std::make_unique<AttentionKernel>(p, c.dtype, *std::move(made), std::move(text));
    }
    if (!absl::IsUnimplemented(made.status())) return made.status();
    refused = made.status();
  }
  absl::StatusOr<ExecutionPlan> made =
      ExecutionPlan::Make(cudnn::AttentionGraph(p, *type), {}, device);
  if (!made.ok()) {
    if (refused.ok() || !absl::IsUnimplemented(made.status())) return made.status();
    return absl::UnimplementedError(Cat("as one node: ", refused.message(),
                                        "; as flash attention's graph: ", made.status().message()));
  }
  std::string text = Cat(made->text(), ", flash attention's graph");
  return std::make_unique<AttentionKernel>(p, c.dtype, *std::move(made), std::move(text));
}

}  // namespace

KernelEntry CudnnAttention(std::string_view backend) {
  return cudnn::Entry("attention", backend, {DType::kF16, DType::kBF16}, &Make);
}

}  // namespace assay::kernels
