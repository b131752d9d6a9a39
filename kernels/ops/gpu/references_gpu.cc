#include "kernels/ops/gpu/references_gpu.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/numerics/convert.h"
#include "kernels/ops/attention/attention_identities_gpu.h"
#include "kernels/ops/attention/attention_probes.h"
#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/attention/attention_reference_gpu.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/conv/conv_reference.h"
#include "kernels/ops/conv/conv_reference_gpu.h"
#include "kernels/ops/copy/copy_on_gpu.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_identities_gpu.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference_gpu.h"
#include "kernels/ops/elementwise/elementwise_on_gpu.h"
#include "kernels/ops/gemm/gemm_reference.h"
#include "kernels/ops/gemm/gemm_reference_gpu.h"
#include "kernels/ops/layer_norm/layer_norm_on_gpu.h"
#include "kernels/ops/reduce/reduce_on_gpu.h"
#include "kernels/ops/rope/rope_on_gpu.h"
#include "kernels/ops/softmax/softmax_identities.h"
#include "kernels/ops/softmax/softmax_identities_gpu.h"
#include "kernels/ops/softmax/softmax_reference.h"
#include "kernels/ops/softmax/softmax_reference_gpu.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

absl::Status Launched(std::string_view op, gpu::ErrorCode code) {
  return gpu::StatusOf(code, Cat("the reference of ", op, " did not launch"));
}

gpu::GemmReference GemmOf(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                          const ReferenceBuffers& out) {
  const auto& p = std::get<GemmProblem>(c.problem);
  gpu::GemmReference g;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.batch = p.batch;
  const auto matrix = [](const TensorView& v, bool rows_lie_along) {
    const Extents& e = v.extents;
    return gpu::GemmReference::Matrix{v.data, rows_lie_along ? 1 : e.ld, rows_lie_along ? e.ld : 1,
                                      e.batch_stride};
  };
  g.a = matrix(inputs[0], p.trans_a);
  g.b = matrix(inputs[1], !p.trans_b);
  if (p.beta != 0.0) g.c = matrix(inputs[2], false);
  const auto columns = [&](int operand) {
    const TensorView& v = inputs[static_cast<std::size_t>(operand)];
    g.columns = v.dtype;
    return v.data;
  };
  if (p.channel_scale) g.channel_scale = columns(p.channel_scale_operand());
  if (p.bias) g.bias = columns(p.bias_operand());
  g.input = c.dtype;
  g.output = plan.output.dtype;
  g.epilogue = MakeGemmEpilogue(p, c.dtype, plan.flushes_subnormals, plan.accumulator);
  const FormatInfo& o = Info(plan.output.dtype);
  if (!o.is_integer && o.storage_bits <= 8) g.largest = o.max_finite;
  g.value = out.value;
  g.allowance = plan.exact ? nullptr : out.allowance;
  g.epilogue.steps = OutputStepsOf(plan.output.dtype);
  return g;
}

gpu::ConvReference ConvOf(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                          const ReferenceBuffers& out) {
  const ConvShape shape = MakeConvShape(std::get<ConvProblem>(c.problem));
  return {shape,
          inputs[0].data,
          inputs[1].data,
          c.dtype,
          MakeProductBound(c.dtype, shape.terms(), plan.flushes_subnormals, plan.accumulator),
          out.value,
          plan.exact ? nullptr : out.allowance,
          MakeSumModel(c.dtype, shape.terms(), AccumulatorOf(c.dtype, plan.accumulator)),
          OutputStepsOf(plan.output.dtype),
          plan.exact ? nullptr : out.deviation};
}

gpu::SoftmaxReference SoftmaxOf(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                                const ReferenceBuffers& out) {
  const auto& p = std::get<SoftmaxProblem>(c.problem);
  return {inputs[0].data,
          c.dtype,
          p.rows,
          p.cols,
          inputs[0].extents.ld,
          MakeSoftmaxTerms(p, c.dtype, plan),
          out.value,
          out.allowance};
}

gpu::DequantSoftmaxReference DequantSoftmaxOf(const Case& c, const Plan& plan,
                                              std::span<const TensorView> inputs,
                                              const ReferenceBuffers& out) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  gpu::DequantSoftmaxReference g;
  g.a = inputs[0].data;
  g.w = inputs[1].data;
  g.scale = inputs[2].data;
  g.input = c.dtype;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.a_ld = inputs[0].extents.ld;
  g.w_ld = inputs[1].extents.ld;
  g.transpose_w = p.transpose_w;
  g.bound = MakeDequantSoftmaxBound(p, c.dtype, plan);
  g.value = out.value;
  g.allowance = plan.exact ? nullptr : out.allowance;
  return g;
}

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
  a.bound = MakeAttentionBound(p, c.dtype, plan.flushes_subnormals, plan.accumulator);
  a.empty = EmptyRow(p);
  a.value = out.value;
  a.allowance = out.allowance;
  return a;
}

// Whole words of device memory, once all before is done.
template <class Words>
absl::Status ReadWords(Device& device, void* from, Words* words) {
  constexpr std::int64_t kCount = sizeof(Words) / sizeof(std::uint64_t);
  const TensorView view = {from, DType::kF64, Extents::Dense(1, 1, kCount)};
  return device.ToHost(view, 0, kCount, words);
}

// `count` elements from `begin` of the logical order, as doubles.
absl::StatusOr<std::vector<double>> ReadDoubles(Device& device, const TensorView& view,
                                                std::int64_t begin, std::int64_t count) {
  std::vector<std::uint64_t> raw(static_cast<std::size_t>(count));  // no format is wider
  if (absl::Status s = device.ToHost(view, begin, count, raw.data()); !s.ok()) return s;
  std::vector<double> values(raw.size());
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = LoadDouble(view.dtype, raw.data(), i);
  }
  return values;
}

TensorView BufferView(const double* data, const Extents& like) {
  return {const_cast<double*>(data), DType::kF64, Extents::Dense(like.batch, like.rows, like.cols)};
}

// From what the device found to the identities, whose messages say what the first broken
// row holds.
absl::StatusOr<std::vector<Identity>> SoftmaxIdentities(const gpu::SoftmaxCheck& check,
                                                        const gpu::SoftmaxFindings& f,
                                                        Device& device, const TensorView& input,
                                                        const TensorView& output) {
  const gpu::SoftmaxReference& s = check.reference;
  const std::int64_t rows = static_cast<std::int64_t>(f.rows);
  Identity range{.name = "range", .count = rows * s.cols};
  Identity sums{.name = "row-sums", .count = rows};
  range.broken = static_cast<std::int64_t>(f.out_of_range);
  sums.broken = static_cast<std::int64_t>(f.sums_broken);
  if (sums.broken > 0) {
    const std::int64_t row = static_cast<std::int64_t>(f.first_sum);
    const auto x = ReadDoubles(device, input, row * s.cols, s.cols);
    const auto y = ReadDoubles(device, output, row * s.cols, s.cols);
    const auto r = ReadDoubles(device, BufferView(s.value, output.extents), row * s.cols, s.cols);
    for (const auto* read : {&x, &y, &r}) {
      if (!read->ok()) return read->status();
    }
    const double max = *std::max_element(x->begin(), x->end());
    double sum = 0, spread = 0;
    for (std::size_t i = 0; i < y->size(); ++i) {
      sum += (*y)[i];
      spread += SoftmaxSpread((*r)[i], (*x)[i], max);
    }
    sums.message = RowSumMessage(
        row, sum,
        SoftmaxSumBound(s.terms.arithmetic, check.rounding, s.terms.intermediate, s.cols, spread));
  }
  if (range.broken > 0) {
    const std::int64_t at = static_cast<std::int64_t>(f.first_out_of_range);
    const auto y = ReadDoubles(device, output, at, 1);
    if (!y.ok()) return y.status();
    range.message = RangeMessage(at / s.cols, at % s.cols, y->front());
  }
  return std::vector<Identity>{range, sums};
}

// The same of a dequant_softmax. What the first broken row holds is asked of the device.
absl::StatusOr<std::vector<Identity>> DequantSoftmaxIdentities(gpu::DequantSoftmaxCheck check,
                                                               Device& device,
                                                               const TensorView& output,
                                                               gpu::Stream stream) {
  constexpr std::string_view kOp = DequantSoftmaxProblem::kOp;
  const std::int64_t cols = check.reference.n;
  const auto look = [&](std::int64_t first, std::int64_t rows, gpu::DequantSoftmaxFindings* f) {
    check.first_row = first;
    check.rows = rows;
    absl::Status s = Launched(kOp, gpu::LaunchDequantSoftmaxCheck(check, stream));
    return s.ok() ? ReadWords(device, check.findings, f) : s;
  };
  gpu::DequantSoftmaxFindings f;
  if (absl::Status s = look(0, check.reference.m, &f); !s.ok()) return s;
  const std::int64_t rows = static_cast<std::int64_t>(f.rows);
  Identity range{.name = "range", .count = rows * cols};
  Identity sums{.name = "row-sums", .count = rows};
  range.broken = static_cast<std::int64_t>(f.out_of_range);
  sums.broken = static_cast<std::int64_t>(f.sums_broken);
  if (range.broken > 0) {
    const std::int64_t at = static_cast<std::int64_t>(f.first_out_of_range);
    const auto y = ReadDoubles(device, output, at, 1);
    if (!y.ok()) return y.status();
    range.message = RangeMessage(at / cols, at % cols, y->front());
  }
  if (sums.broken > 0) {
    const std::int64_t row = static_cast<std::int64_t>(f.first_sum);
    if (absl::Status s = look(row, 1, &f); !s.ok()) return s;
    sums.message = RowSumMessage(row, f.sum, f.bound);
  }
  return std::vector<Identity>{range, sums};
}

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

// Operators whose reference is one launch, which their own folder makes.
using ReferenceLaunch = gpu::ErrorCode (*)(const Case&, const Plan&, std::span<const TensorView>,
                                           const ReferenceBuffers&, gpu::Stream);
constexpr std::pair<std::string_view, ReferenceLaunch> kOneLaunch[] = {
    {LayerNormProblem::kOp, &LayerNormOnGpu}, {CopyProblem::kOp, &CopyOnGpu},
    {ReduceProblem::kOp, &ReduceOnGpu},       {ElementwiseProblem::kOp, &ElementwiseOnGpu},
    {RopeProblem::kOp, &RopeOnGpu},
};

}  // namespace

absl::Status GpuReferences::Reference(const Case& c, const Plan& plan, Device& device,
                                      std::span<const TensorView> inputs,
                                      ReferenceBuffers& out) const {
  const absl::StatusOr<gpu::Stream> stream = stream_(device);
  if (!stream.ok()) return stream.status();
  const std::string_view op = OpName(c.problem);
  if (op == GemmProblem::kOp) {
    gpu::GemmReference gemm = GemmOf(c, plan, inputs, out);
    if (gemm.allowance != nullptr && out.deviation != nullptr) {
      const absl::StatusOr<void*> scratch = scratch_(device);
      if (!scratch.ok()) return scratch.status();
      gemm.deviation = out.deviation;
      gemm.scratch = *scratch;
      gemm.scratch_bytes = kScratchBytes;
    }
    return Launched(op, gpu::LaunchGemmReference(gemm, *stream));
  }
  if (op == ConvProblem::kOp) {
    const gpu::ConvReference conv = ConvOf(c, plan, inputs, out);
    if (conv.shape.terms() > gpu::kMostConvTerms) {
      return absl::UnimplementedError(Cat("a convolution's reference on a GPU sums at most ",
                                          gpu::kMostConvTerms, " products an element, not ",
                                          conv.shape.terms()));
    }
    return Launched(op, gpu::LaunchConvReference(conv, *stream));
  }
  if (op == SoftmaxProblem::kOp) {
    return Launched(op, gpu::LaunchSoftmaxReference(SoftmaxOf(c, plan, inputs, out), *stream));
  }
  if (op == DequantSoftmaxProblem::kOp) {
    return Launched(
        op, gpu::LaunchDequantSoftmaxReference(DequantSoftmaxOf(c, plan, inputs, out), *stream));
  }
  for (const auto& [name, launch] : kOneLaunch) {
    if (name == op) return Launched(op, launch(c, plan, inputs, out, *stream));
  }
  if (op != AttentionProblem::kOp) {
    return absl::UnimplementedError(Cat(op, " has no reference on a GPU"));
  }
  if (c.exact)
    return Launched(op, gpu::LaunchAttentionKeyGroups(KeyGroupsOf(c, inputs, out), *stream));
  const absl::StatusOr<void*> scratch = scratch_(device);
  if (!scratch.ok()) return scratch.status();
  gpu::AttentionReference attention = AttentionOf(c, plan, inputs, out);
  attention.largest = static_cast<unsigned long long*>(*scratch);
  if (absl::Status s = Launched(op, gpu::LaunchAttentionReference(attention, *stream)); !s.ok()) {
    return s;
  }
  unsigned long long largest = 0;
  if (absl::Status s = ReadWords(device, *scratch, &largest); !s.ok()) return s;
  out.max_abs_score = gpu::LargestScore(largest);
  return absl::OkStatus();
}

bool GpuReferences::FillsDeviations(const Case& c) const {
  if (const auto* gemm = std::get_if<GemmProblem>(&c.problem)) {
    return gpu::SquareBytes(gemm->m, gemm->n, gemm->k) <= kScratchBytes;
  }
  return std::holds_alternative<ConvProblem>(c.problem);
}

bool GpuReferences::FillsDirection(const Case& c) const {
  return std::holds_alternative<AttentionProblem>(c.problem);
}

absl::StatusOr<std::vector<Identity>> GpuReferences::CheckIdentities(
    const Case& c, const Plan& plan, Device& device, std::span<const TensorView> inputs,
    const TensorView& output, const ReferenceBuffers& reference) const {
  const std::string_view op = OpName(c.problem);
  if (op == AttentionProblem::kOp) {
    const std::optional<FirstRowRule> rule = FirstRowRuleOf(c, plan, output.dtype);
    if (!rule) return std::vector<Identity>();
    const absl::StatusOr<gpu::Stream> stream = stream_(device);
    if (!stream.ok()) return stream.status();
    const absl::StatusOr<void*> scratch = scratch_(device);
    if (!scratch.ok()) return scratch.status();
    static_assert(sizeof(gpu::FirstRowFindings) <= kScratchBytes);
    const gpu::FirstRowCheck check = {
        OperandsOf(std::get<AttentionProblem>(c.problem), c.dtype, inputs), *rule, output.data,
        reference.value, static_cast<gpu::FirstRowFindings*>(*scratch)};
    if (absl::Status s = Launched(op, gpu::LaunchFirstRowCheck(check, *stream)); !s.ok()) return s;
    gpu::FirstRowFindings findings;
    if (absl::Status s = ReadWords(device, *scratch, &findings); !s.ok()) return s;
    if (findings.broken > 0) return ReadFirstRows(c, plan, device, inputs, output, reference);
    Identity identity = FirstRowIdentity();
    identity.count = static_cast<std::int64_t>(findings.count);
    return std::vector<Identity>{identity};
  }
  if (op != SoftmaxProblem::kOp && op != DequantSoftmaxProblem::kOp) {
    return std::vector<Identity>();
  }
  const absl::StatusOr<gpu::Stream> stream = stream_(device);
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<void*> scratch = scratch_(device);
  if (!scratch.ok()) return scratch.status();
  if (op == DequantSoftmaxProblem::kOp) {
    static_assert(sizeof(gpu::DequantSoftmaxFindings) <= kScratchBytes);
    gpu::DequantSoftmaxCheck check;
    check.reference = DequantSoftmaxOf(c, plan, inputs, reference);
    check.y = output.data;
    check.output = output.dtype;
    check.y_ld = output.extents.ld;
    check.rounding = OutputRoundingOf(output.dtype, plan.flushes_subnormals);
    check.findings = static_cast<gpu::DequantSoftmaxFindings*>(*scratch);
    return DequantSoftmaxIdentities(check, device, output, *stream);
  }
  static_assert(sizeof(gpu::SoftmaxFindings) <= kScratchBytes);
  const gpu::SoftmaxCheck check = {SoftmaxOf(c, plan, inputs, reference),
                                   output.data,
                                   output.dtype,
                                   output.extents.ld,
                                   OutputRoundingOf(output.dtype, plan.flushes_subnormals),
                                   static_cast<gpu::SoftmaxFindings*>(*scratch)};
  if (absl::Status s = Launched(op, gpu::LaunchSoftmaxCheck(check, *stream)); !s.ok()) return s;
  gpu::SoftmaxFindings findings;
  if (absl::Status s = ReadWords(device, *scratch, &findings); !s.ok()) return s;
  return SoftmaxIdentities(check, findings, device, inputs[0], output);
}

}  // namespace assay
