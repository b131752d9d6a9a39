// Shares the parts that the residual models of operators on rows have in common (ResidualModel in
// op.h), and the places of a row in ReferenceBuffers.
#ifndef ASSAY_KERNELS_OPS_COMMON_ROW_RESIDUALS_H_
#define ASSAY_KERNELS_OPS_COMMON_ROW_RESIDUALS_H_

#include <cstdint>

#include "kernels/ops/common/row_fit.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

// Roundings to Case::intermediate_dtype that a kernel may make on the way from an input to its
// output.
inline constexpr double kDeclaredRoundings = 3;

// The residual model of a case whose elements share the errors of sums over their row. Not known
// for exact results, integers, and fp64, whose reference rounds as well. Nor unless the first
// input is normal or uniform, with a spread that is not small beside its magnitude. A user's own
// tensors count as normal.
ResidualModel RowResiduals(const Case& c, const Plan& plan);

// Where the deviations of the first row stand.
RowDeviations RowsOf(const ReferenceBuffers& buffers);

// Where the deviations of a row of `cols` elements stand. No deviation: nobody asks for them.
RowDeviations RowOf(const ReferenceBuffers& buffers, std::int64_t row, std::int64_t cols);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_ROW_RESIDUALS_H_
