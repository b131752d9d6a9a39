// reduce: y = sum, max or argmax of x along one axis, which y does not have. x has up to 4 axes
// and is seen as [outer, length, inner], y as [outer, inner]. A max is NaN where an element is
// NaN. An argmax is the index of the largest element as int32; a NaN counts as larger than all
// numbers. FLOPs counted: one an element of x.
#ifndef ASSAY_KERNELS_OPS_REDUCE_PROBLEM_H_
#define ASSAY_KERNELS_OPS_REDUCE_PROBLEM_H_

#include "kernels/ops/field.h"
#include "kernels/ops/reduce/reduce_shape.h"

namespace assay::inline kernels {

struct ReduceProblem {
  IntList extents;             // of x, outermost first
  std::int64_t axis = -1;      // negative: from the last
  std::string kind;            // "sum", "max", "argmax"
  std::string ties = "first";  // argmax: "first", the lowest index; "any" of the largest

  static constexpr std::string_view kOp = "reduce";
  static std::span<const Field<ReduceProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "max 8x1024x64 axis 1"

  // Of a problem that Check accepts.
  ReduceKind kind_of() const;
  std::size_t Axis() const;  // from 0
  ReduceShape Split() const;
  bool any_tie() const { return ties == "any"; }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_REDUCE_PROBLEM_H_
