#include "kernels/ops/attention/problem.h"

#include <limits>
#include <utility>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr Field<AttentionProblem> kFields[] = {
    {"batch", &AttentionProblem::batch},
    {"heads", &AttentionProblem::heads},
    {"kv_heads", &AttentionProblem::kv_heads},
    {"seq", &AttentionProblem::seq},
    {"kv_seq", &AttentionProblem::kv_seq},
    {"dim", &AttentionProblem::dim},
    {"causal", &AttentionProblem::causal},
    {"scale", &AttentionProblem::scale},
    {"mask_density", &AttentionProblem::mask_density},
    {"masked_rows", &AttentionProblem::masked_rows},
    {"scale_q", &AttentionProblem::scale_q},
    {"scale_k", &AttentionProblem::scale_k},
    {"scale_v", &AttentionProblem::scale_v},
};

}  // namespace

std::span<const Field<AttentionProblem>> AttentionProblem::Fields() { return kFields; }

std::vector<FieldError> AttentionProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("batch", batch, 1, kMaxExtent, errors);
  CheckRange("heads", heads, 1, kMaxExtent, errors);
  CheckRange("kv_heads", kv_heads, 0, kMaxExtent, errors);
  CheckRange("seq", seq, 1, kMaxExtent, errors);
  CheckRange("kv_seq", kv_seq, 0, kMaxExtent, errors);
  CheckRange("dim", dim, 1, kMaxExtent, errors);
  if (heads >= 1 && kv_heads >= 1 && heads % kv_heads != 0) {
    errors.push_back({"kv_heads", Cat("must divide heads, ", heads, ", got ", kv_heads)});
  }
  if (!(std::abs(scale) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    errors.push_back({"scale", Cat("must be a finite fp32 number, got ", scale)});
  }
  for (const auto& [field, value] :
       {std::pair{"scale_q", scale_q}, {"scale_k", scale_k}, {"scale_v", scale_v}}) {
    if (!(std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      errors.push_back({field, Cat("must be a finite fp32 number, got ", value)});
    }
  }
  if (!(mask_density >= 0.0 && mask_density < 1.0)) {
    errors.push_back(
        {"mask_density", Cat("must be from 0 (no mask) to below 1, got ", mask_density)});
  }
  if (masked_rows != "zero" && masked_rows != "nan") {
    errors.push_back({"masked_rows", Cat("must be zero or nan, got \"", masked_rows, "\"")});
  }
  if (!errors.empty()) return errors;
  CheckCount("seq", "q", {batch, heads, seq, dim}, errors);
  CheckCount(kv_seq == 0 ? "seq" : "kv_seq", "k", {batch, KvHeads(), KvSeq(), dim}, errors);
  if (masked()) CheckCount("mask_density", "the mask", {seq, KvSeq()}, errors);
  return errors;
}

std::string AttentionProblem::Describe() const {
  std::string text = Cat(batch, "x", heads, "x", seq, "x", dim);
  if (KvHeads() != heads) Append(&text, " kv-heads ", kv_heads);
  if (KvSeq() != seq) Append(&text, " kv-seq ", kv_seq);
  if (causal) Append(&text, " causal");
  if (scale != 0.0) Append(&text, " scale ", scale);
  if (masked()) Append(&text, " mask ", mask_density);
  if (masked_rows != "zero") Append(&text, " masked-rows ", masked_rows);
  if (scale_q != 1.0) Append(&text, " scale-q ", scale_q);
  if (scale_k != 1.0) Append(&text, " scale-k ", scale_k);
  if (scale_v != 1.0) Append(&text, " scale-v ", scale_v);
  return text;
}

}  // namespace assay::kernels
