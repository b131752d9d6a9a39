// attention: O = softmax(scale·(scale_q·Q)·(scale_k·K)ᵀ + mask)·(scale_v·V).
//
// Operands: q [batch, heads, seq, dim], k and v [batch, kv_heads, kv_seq, dim],
// mask int8 [seq, kv_seq] (1 keeps) only if 0 < mask_density < 1, output
// o [batch, heads, seq, dim]; all row-major. Query head h reads kv head
// h / (heads / kv_heads). Causal: query i sees key j where j <= i + kv_seq − seq.
// FLOPs: 4·batch·heads·dim·(visible pairs of query and key).
#ifndef ASSAY_KERNELS_OPS_ATTENTION_PROBLEM_H_
#define ASSAY_KERNELS_OPS_ATTENTION_PROBLEM_H_

#include <cmath>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct AttentionProblem {
  std::int64_t batch = 1;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t seq = 0;
  std::int64_t kv_seq = 0;  // 0: seq
  std::int64_t dim = 0;
  bool causal = false;
  double scale = 0.0;                // 0: 1/sqrt(dim)
  double mask_density = 0.0;         // 0: no mask
  std::string masked_rows = "zero";  // or "nan": what a row without a visible key gives
  double scale_q = 1.0;              // what Q's stored values are multiplied by
  double scale_k = 1.0;
  double scale_v = 1.0;

  static constexpr std::string_view kOp = "attention";
  static std::span<const Field<AttentionProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "1x16x2048x64 causal"

  std::int64_t KvHeads() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t KvSeq() const { return kv_seq == 0 ? seq : kv_seq; }
  // As a kernel for inputs of a format gets it: rounded to fp32 but for fp64.
  double Scale(DType input) const {
    const double exact = scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(dim)) : scale;
    return input == DType::kF64 ? exact : static_cast<double>(static_cast<float>(exact));
  }
  bool masked() const { return mask_density > 0.0; }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_PROBLEM_H_
