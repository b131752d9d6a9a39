// Probes of layer and RMS norm: rows on which the usual faults leave the bound that every
// case is held to, though on standard normal data they are hidden by it.
//
//   large-mean      x = M + S·normal, M/S near sqrt(1/u): E[x²] − μ² has no digits left, and
//                   is 0, negative or far off; (x − μ)² loses nothing. Not for the RMS form,
//                   whose mean is not subtracted.
//   large           x = S·normal with a large S, in formats of 16 bits and more: a kernel that
//                   clips elements shows. The bound of rows with a large mean is too wide for that.
//   small-variance  x = s·normal, s² near eps/4: without eps the elements are √5 too large.
//   last-column     x = 0 and a large number in the last column: a sum without it is 0.
//   sparse          x = ±1 in some 48 columns of each row, else 0: a sum without any one of them is
//                   off by more than the output's rounding hides. Of a user's kernel, in so many
//                   rows that nearly all columns are among them, if rows have up to some thousands.
//
// Weight and bias hold the same pattern as x. In last-column and sparse, and if a kernel declares
// fp16, they are the usual ones, because the results are beyond what fp16 holds otherwise.
//
// A row of so large a mean is kept within E by every two-pass kernel, for E grows with
// n·mean|x|·rstd as its rounding does.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_PROBES_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_PROBES_H_

#include <vector>

#include "kernels/ops/case.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

// All, each marked as skipped where the case's eps, columns or input format have no such
// rows.
std::vector<KernelProbe> LayerNormProbes(const Case& c, const Plan& plan);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_PROBES_H_
