// attention on a GPU: see gpu_op.h.
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "kernels/numerics/convert.h"
#include "kernels/ops/attention/attention_identities_gpu.h"
#include "kernels/ops/attention/attention_probes.h"
#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/attention/attention_reference_gpu.h"
#include "kernels/ops/common/device_words.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/runtime/gpu/primitives.h"

namespace assay::inline kernels {
namespace {

gpu::AttentionOperands OperandsOf(const AttentionProblem& p, DType input,
                                  std::span<const TensorView> inputs) {
  gpu::AttentionOperands o;
  o.q = inputs[0].data;
  o.k = inputs[1].data;
  o.v = inputs[2].data;
  if (p.masked()) o.mask = inputs[3].data;
  o.input = input;
  o.batch = p.batch;
  o.heads = p.heads;
  o.kv_heads = p.KvHeads();
  o.queries = p.seq;
  o.keys = p.KvSeq();
  o.dim = p.dim;
  o.causal = p.causal;
  return o;
}

double EmptyRow(const AttentionProblem& p) {
  return p.masked_rows == "zero" ? 0.0 : std::numeric_limits<double>::quiet_NaN();
}

gpu::AttentionKeyGroupsReference KeyGroupsOf(const Case& c, std::span<const TensorView> inputs,
                                             const ReferenceBuffers& out) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  return {OperandsOf(p, c.dtype, inputs), GroupsOf(c), KernelScalar(c.dtype, p.scale_v),
          EmptyRow(p), out.value};
}

gpu::AttentionReference AttentionOf(const Case& c, const Plan& plan,
                                    std::span<const TensorView> inputs,
                                    const ReferenceBuffers& out) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  gpu::AttentionReference a;
  a.operands = OperandsOf(p, c.dtype, inputs);
  a.bound = MakeAttentionBound(c, plan);
  a.empty = EmptyRow(p);
  a.value = out.value;
  a.allowance = out.allowance;
  a.model = MakeAttentionDeviation(c, plan);
  a.deviation = out.deviation;
  a.direction = out.direction;
  return a;
}

// Of the scratch memory, behind the largest score.
constexpr std::int64_t kKeySquareBytes = gpu::kScratchBytes - std::int64_t{sizeof(double)};

// The identity of an attention by reading: what a broken one's message is made of.
absl::StatusOr<std::vector<Identity>> ReadFirstRows(const Case& c, const Plan& plan, Device& device,
                                                    std::span<const TensorView> inputs,
                                                    const TensorView& output,
                                                    const ReferenceBuffers& reference) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  const TensorView expected = BufferView(reference.value, output.extents);
  return CheckFirstRows(c, plan, output.dtype, [&](std::int64_t head, FirstRow& row) {
    const std::int64_t at = (head * p.seq + FirstRowQuery(p)) * p.dim;
    const std::int64_t first_key = KvHeadOf(p, head) * p.KvSeq() * p.dim;
    auto q = ReadDoubles(device, inputs[0], at, p.dim);
    auto k = ReadDoubles(device, inputs[1], first_key, p.dim);
    auto v = ReadDoubles(device, inputs[2], first_key, p.dim);
    auto actual = ReadDoubles(device, output, at, p.dim);
    auto r = ReadDoubles(device, expected, at, p.dim);
    for (const auto* read : {&q, &k, &v, &actual, &r}) {
      if (!read->ok()) return read->status();
    }
    row = {*std::move(q), *std::move(k), *std::move(v), *std::move(actual), *std::move(r)};
    return absl::OkStatus();
  });
}

class Attention final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    constexpr std::string_view kOp = AttentionProblem::kOp;
    if (c.exact) {
      return Launched(kOp, gpu::LaunchAttentionKeyGroups(KeyGroupsOf(c, inputs, out), call.stream));
    }
    gpu::AttentionReference attention = AttentionOf(c, plan, inputs, out);
    attention.largest = static_cast<unsigned long long*>(call.scratch);
    attention.key_squares = static_cast<double*>(call.scratch) + 1;
    attention.key_squares_bytes = kKeySquareBytes;
    if (absl::Status s = Launched(kOp, gpu::LaunchAttentionReference(attention, call.stream));
        !s.ok()) {
      return s;
    }
    unsigned long long largest = 0;
    if (absl::Status s = ReadWords(call.device, call.scratch, &largest); !s.ok()) return s;
    out.max_abs_score = gpu::LargestScore(largest);
    return absl::OkStatus();
  }

  bool FillsDeviations(const Case& c) const override {
    return gpu::KeySquareBytes(std::get<AttentionProblem>(c.problem).KvSeq()) <= kKeySquareBytes;
  }

  absl::StatusOr<std::vector<Identity>> CheckIdentities(
      const GpuCall& call, const Case& c, const Plan& plan, std::span<const TensorView> inputs,
      const TensorView& output, const ReferenceBuffers& reference) const override {
    const std::optional<FirstRowRule> rule = FirstRowRuleOf(c, plan, output.dtype);
    if (!rule) return std::vector<Identity>();
    static_assert(sizeof(gpu::FirstRowFindings) <= gpu::kScratchBytes);
    const gpu::FirstRowCheck check = {
        OperandsOf(std::get<AttentionProblem>(c.problem), c.dtype, inputs), *rule, output.data,
        reference.value, static_cast<gpu::FirstRowFindings*>(call.scratch)};
    const absl::Status launched =
        Launched(AttentionProblem::kOp, gpu::LaunchFirstRowCheck(check, call.stream));
    if (!launched.ok()) return launched;
    gpu::FirstRowFindings findings;
    if (absl::Status s = ReadWords(call.device, call.scratch, &findings); !s.ok()) return s;
    if (findings.broken > 0) return ReadFirstRows(c, plan, call.device, inputs, output, reference);
    Identity identity = FirstRowIdentity();
    identity.count = static_cast<std::int64_t>(findings.count);
    return std::vector<Identity>{identity};
  }
};

}  // namespace

const GpuOp& AttentionOnGpu() {
  static const Attention op;
  return op;
}

}  // namespace assay::kernels
