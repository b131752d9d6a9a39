// By how much the order of a row's sums can move what all elements of the row share, on data that a
// user sent.
//
// The deviation of a row holds what three orders make of the data at hand
// (ops/common/sum_orders.h). Addends that repeat, as those of padding do, may lose more in another
// order, such as backwards: then their roundings have one sign. So before a row's factor or offset
// is called wrong, sampled rows are summed in the orders of summation_orders.h:
//   the elements of a layer norm        for the offset: they give the mean
//   the squares of their distances      for the factor: they give the scale; in the RMS form the
//   from the mean                       squares of the elements
//   the exponentials of a softmax       for the factor; there is no offset
// The arguments of a softmax may be multiplied by log2(e) before the maximum is subtracted, and
// rounded. Arguments of few distinct values have few errors, which are those of all rows: together
// they may look like another scale of the arguments. So the scale that such a kernel seems to have
// is measured, too, on the same rows.
// Rows that the fit leaves out (runtime/residuals_rule.h) explain nothing and are left out here,
// too: those that are not finite, zeros, and rows of a layer norm whose elements are all equal.
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
