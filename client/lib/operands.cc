#include "client/lib/operands.h"

#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace assay::client {
namespace {

using Shape = std::vector<std::int64_t>;

absl::Status Wrong(const NamedShape& operand, std::string message) {
  return absl::InvalidArgumentError(absl::StrCat(operand.name, ": ", message));
}

// Extent `i` from the innermost.
std::int64_t FromEnd(const Shape& shape, std::size_t i) { return shape[shape.size() - 1 - i]; }

// Product of all but the innermost `inner` extents. They are a file's: no overflow.
std::int64_t Outer(const Shape& shape, std::size_t inner) {
  return std::accumulate(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(inner),
                         std::int64_t{1}, std::multiplies<>());
}

absl::Status NeedAxes(const NamedShape& operand, std::size_t least, const char* axes) {
  if (operand.shape.size() >= least) return absl::OkStatus();
  return Wrong(operand, absl::StrCat("must have the axes ", axes, ", its shape is ",
                                     ShapeOf(operand.shape)));
}

absl::Status Gemm(const std::vector<NamedShape>& operands, v1::GemmProblem& p) {
  for (int i = 0; i < 2; ++i) {
    const char* axes =
        i == 0 ? (p.trans_a() ? "[k, m]" : "[m, k]") : (p.trans_b() ? "[n, k]" : "[k, n]");
    if (absl::Status s = NeedAxes(operands[static_cast<std::size_t>(i)], 2, axes); !s.ok()) {
      return s;
    }
  }
  const Shape& a = operands[0].shape;
  const Shape& b = operands[1].shape;
  const std::int64_t k_of_a = FromEnd(a, p.trans_a() ? 1 : 0);
  const std::int64_t k_of_b = FromEnd(b, p.trans_b() ? 0 : 1);
  if (k_of_a != k_of_b) {
    return absl::InvalidArgumentError(
        absl::StrCat(operands[0].name, " ", ShapeOf(a), " and ", operands[1].name, " ", ShapeOf(b),
                     " do not multiply: k is ", k_of_a, " in the one and ", k_of_b,
                     " in the other (--trans-a, --trans-b)"));
  }
  if (p.k() == 0) p.set_k(k_of_a);
  if (p.n() == 0) p.set_n(FromEnd(b, p.trans_b() ? 1 : 0));
  // One B for all rows of A, or a product for each of B's outer indices.
  const bool one_b = b.size() == 2 && !p.trans_a();
  if (p.m() == 0) p.set_m(one_b ? Outer(a, 1) : FromEnd(a, p.trans_a() ? 0 : 1));
  if (!p.has_batch() && b.size() > 2) p.set_batch(Outer(b, 2));
  return absl::OkStatus();
}

absl::Status Conv(const std::vector<NamedShape>& operands, v1::ConvProblem& p) {
  const Shape& x = operands[0].shape;
  const Shape& w = operands[1].shape;
  if (x.size() < 3 || x.size() > 5) {
    return Wrong(operands[0], absl::StrCat("must have batch, channels and 1 to 3 spatial axes, "
                                           "its shape is ",
                                           ShapeOf(x)));
  }
  if (w.size() != x.size()) {
    return Wrong(operands[1], absl::StrCat("weights must have as many axes as the input ",
                                           ShapeOf(x), ", their shape is ", ShapeOf(w)));
  }
  const std::size_t channel_axis = p.layout() == "nhwc" ? x.size() - 1 : 1;
  const std::size_t first_spatial = p.layout() == "nhwc" ? 1 : 2;
  if (!p.has_batch()) p.set_batch(x[0]);
  if (p.channels() == 0) p.set_channels(x[channel_axis]);
  if (p.filters() == 0) p.set_filters(w[0]);
  if (!p.has_groups() && w[channel_axis] > 0) p.set_groups(x[channel_axis] / w[channel_axis]);
  const std::size_t spatial = x.size() - 2;
  if (p.input().empty()) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first_spatial);
    p.mutable_input()->Add(begin, begin + static_cast<std::ptrdiff_t>(spatial));
  }
  if (p.kernel().empty()) {
    const auto begin = w.begin() + static_cast<std::ptrdiff_t>(first_spatial);
    p.mutable_kernel()->Add(begin, begin + static_cast<std::ptrdiff_t>(spatial));
  }
  return absl::OkStatus();
}

absl::Status Attention(const std::vector<NamedShape>& operands, v1::AttentionProblem& p) {
  constexpr char kAxes[] = "[..., heads, seq, dim]";
  for (int i = 0; i < 3; ++i) {
    const NamedShape& operand = operands[static_cast<std::size_t>(i)];
    if (absl::Status s = NeedAxes(operand, 3, kAxes); !s.ok()) return s;
  }
  const Shape& q = operands[0].shape;
  const Shape& k = operands[1].shape;
  if (!p.has_batch()) p.set_batch(Outer(q, 3));
  if (p.heads() == 0) p.set_heads(FromEnd(q, 2));
  if (p.seq() == 0) p.set_seq(FromEnd(q, 1));
  if (p.dim() == 0) p.set_dim(FromEnd(q, 0));
  if (p.kv_heads() == 0) p.set_kv_heads(FromEnd(k, 2));
  if (p.kv_seq() == 0) p.set_kv_seq(FromEnd(k, 1));
  // A mask is an operand where its density is neither 0 nor 1; which does not matter.
  if (operands.size() > 3 && p.mask_density() == 0) p.set_mask_density(0.5);
  return absl::OkStatus();
}

absl::Status DequantSoftmax(const std::vector<NamedShape>& operands, v1::DequantSoftmaxProblem& p) {
  if (absl::Status s = NeedAxes(operands[0], 2, "[..., k]"); !s.ok()) return s;
  const char* axes = p.transpose_w() ? "[n, k]" : "[k, n]";
  if (absl::Status s = NeedAxes(operands[1], 2, axes); !s.ok()) return s;
  const Shape& a = operands[0].shape;
  const Shape& w = operands[1].shape;
  const std::int64_t k_of_w = FromEnd(w, p.transpose_w() ? 0 : 1);
  if (FromEnd(a, 0) != k_of_w) {
    return absl::InvalidArgumentError(
        absl::StrCat(operands[0].name, " ", ShapeOf(a), " and ", operands[1].name, " ", ShapeOf(w),
                     " do not multiply: k is ", FromEnd(a, 0), " in the one and ", k_of_w,
                     " in the other (--transpose-w)"));
  }
  if (!p.has_m()) p.set_m(Outer(a, 1));
  if (p.n() == 0) p.set_n(FromEnd(w, p.transpose_w() ? 1 : 0));
  if (p.k() == 0) p.set_k(k_of_w);
  return absl::OkStatus();
}

// The least operands of an operator, and what they are called.
struct Arity {
  v1::CaseSpec::ProblemCase problem;
  std::size_t least;
  const char* operands;
};
constexpr Arity kArities[] = {
    {v1::CaseSpec::kGemm, 2, "A,B"},
    {v1::CaseSpec::kConv, 2, "INPUT,WEIGHTS"},
    {v1::CaseSpec::kAttention, 3, "Q,K,V"},
    {v1::CaseSpec::kSoftmax, 1, "X"},
    {v1::CaseSpec::kLayerNorm, 1, "X"},
    {v1::CaseSpec::kCopy, 1, "X"},
    {v1::CaseSpec::kDequantSoftmax, 3, "A,W,SCALE"},
};

}  // namespace

std::string ShapeOf(const std::vector<std::int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

absl::Status FillExtents(const std::vector<NamedShape>& operands, v1::CaseSpec& spec) {
  for (const Arity& arity : kArities) {
    if (arity.problem != spec.problem_case() || operands.size() >= arity.least) continue;
    return absl::InvalidArgumentError(absl::StrCat("inputs: must be at least ", arity.operands,
                                                   ", got ", operands.size(), " of them"));
  }
  const auto rows_and_columns = [&](auto& p) -> absl::Status {
    if (absl::Status s = NeedAxes(operands[0], 1, "[..., cols]"); !s.ok()) return s;
    if (!p.has_rows()) p.set_rows(Outer(operands[0].shape, 1));
    if (p.cols() == 0) p.set_cols(operands[0].shape.back());
    return absl::OkStatus();
  };
  switch (spec.problem_case()) {
    case v1::CaseSpec::kGemm:
      return Gemm(operands, *spec.mutable_gemm());
    case v1::CaseSpec::kConv:
      return Conv(operands, *spec.mutable_conv());
    case v1::CaseSpec::kAttention:
      return Attention(operands, *spec.mutable_attention());
    case v1::CaseSpec::kSoftmax:
      return rows_and_columns(*spec.mutable_softmax());
    case v1::CaseSpec::kLayerNorm:
      if (operands.size() > 1) spec.mutable_layer_norm()->set_affine(true);
      return rows_and_columns(*spec.mutable_layer_norm());
    case v1::CaseSpec::kCopy:
      if (spec.copy().count() == 0) spec.mutable_copy()->set_count(Outer(operands[0].shape, 0));
      return absl::OkStatus();
    case v1::CaseSpec::kDequantSoftmax:
      return DequantSoftmax(operands, *spec.mutable_dequant_softmax());
    case v1::CaseSpec::PROBLEM_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("inputs: need the operation they are operands of (--op gemm)");
}

}  // namespace assay::client
