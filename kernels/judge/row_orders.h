// Measures how far right kernels may move a whole row of an output, because they sum the row in
// different orders. The data are a user's, so nothing is known of them.
//
// The deviation of a row rests on three orders of the sum (ops/common/sum_orders.h). Addends may
// repeat, as those of padding do. Then another order, such as backwards, may lose more, because its
// roundings all have one sign. So before a row's factor or offset is called wrong, sampled rows are
// summed in the orders of summation_orders.h:
//   the elements of a layer norm        for the offset: they give the mean
//   the squares of their distances      for the factor: they give the scale; in the RMS form the
//   from the mean                       squares of the elements
//   the exponentials of a softmax       for the factor; there is no offset
// A softmax may multiply its arguments by log2(e), and round, before it subtracts the maximum. If
// the arguments have few different values, there are few different errors, the same in all rows.
// Together they may look like another scale of the arguments. So that scale is measured on the same
// rows, too. The fit of a row leaves out some rows (runtime/residuals_rule.h). They explain nothing
// and are left out here, too: rows with NaN or infinities, rows of zeros, and rows of a layer norm
// whose elements are all equal.
#ifndef ASSAY_KERNELS_JUDGE_ROW_ORDERS_H_
#define ASSAY_KERNELS_JUDGE_ROW_ORDERS_H_

#include "absl/status/statusor.h"
#include "kernels/judge/precision.h"
#include "kernels/judge/precision_evidence.h"

namespace assay::inline kernels {

// What the limits are multiplied by: 1 on data whose roundings are random, and where no row counts.
// For operators with rows.
absl::StatusOr<RowOrders> EmulateRowOrders(const PrecisionSubject& subject);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_ROW_ORDERS_H_
