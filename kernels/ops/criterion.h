// Chooses the criterion of a case that names none, and knows which figures belong to a criterion.
//
// A figure that the gating criterion does not read would be ignored: it is refused instead.
// max_ulp is none of them: it is the limit of ulp, and one beside every other criterion.
#ifndef ASSAY_KERNELS_OPS_CRITERION_H_
#define ASSAY_KERNELS_OPS_CRITERION_H_

#include <string_view>
#include <vector>

#include "kernels/ops/case.h"

namespace assay::inline kernels {

// The case's own, or where it names none allclose with a tolerance, else bound.
Criterion GatingCriterion(const Case& c);

// "bound", "derived", …; "" for none.
std::string_view WordOf(Criterion criterion);

// Adds an error for atol or rtol, which belong to allclose and legacy, and for accumulations
// or split_k, which belong to derived, beside another criterion.
void CheckFigures(Criterion criterion, const Case& rule, std::vector<FieldError>& errors);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CRITERION_H_
