// rope: rotary position embedding. x and output y are [batch, seq, heads, dim]. Pair i of a row at
// position p is turned by the angle p·θ^(−2i/dim):
//   y1 = x1·cos − x2·sin,  y2 = x2·cos + x1·sin
// Interleaved: the pair is elements 2i and 2i + 1 of the row (GPT-J). Else it is elements i and
// i + dim/2 (GPT-NeoX, Llama). Positions of a sequence are start, start + 1, …
// FLOPs counted: 3 an element.
#ifndef ASSAY_KERNELS_OPS_ROPE_PROBLEM_H_
#define ASSAY_KERNELS_OPS_ROPE_PROBLEM_H_

#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct RopeProblem {
  std::int64_t batch = 1;
  std::int64_t seq = 0;
  std::int64_t heads = 1;
  std::int64_t dim = 0;
  bool interleaved = false;
  std::int64_t start = 0;
  double theta = 10000.0;

  static constexpr std::string_view kOp = "rope";
  static std::span<const Field<RopeProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "2x128x8x64 interleaved start 4096"

  // Of a problem that Check accepts.
  std::int64_t rows() const { return batch * seq * heads; }
  std::int64_t PositionOf(std::int64_t row) const { return start + row / heads % seq; }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ROPE_PROBLEM_H_
