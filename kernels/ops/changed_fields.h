// Compares the problems of two cases: their shapes, and all their other fields.
#ifndef ASSAY_KERNELS_OPS_CHANGED_FIELDS_H_
#define ASSAY_KERNELS_OPS_CHANGED_FIELDS_H_

#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// Whether all operands have the same extents.
bool SameShapes(const Plan& a, const Plan& b);

// Whether a kernel can tell the second case's problem from the first one's by the shapes of its
// operands alone: every field that differs is an extent. A kernel may be made for all other fields,
// such as an activation. Both cases are of `op`.
bool OnlyShapesDiffer(const Op& op, const Case& first, const Case& second);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CHANGED_FIELDS_H_
