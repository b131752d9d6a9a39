// By how much the order of a row's sums can move what all elements of the row share, on data that a
// user sent.
//
// The deviation of a row holds what three orders make of the data at hand
// (ops/common/sum_orders.h). Addends that repeat, as those of padding do, may lose more in another
// order, such as backwards: then their roundings have one sign. So before a row's factor or offset
// is called wrong, sampled rows are summed in the orders of summation_orders.h: the exponentials of
// a softmax, and the elements of a layer norm and the squares of their distances from the mean.
#ifndef ASSAY_KERNELS_JUDGE_ROW_ORDERS_H_
#define ASSAY_KERNELS_JUDGE_ROW_ORDERS_H_

#include "kernels/judge/precision_evidence.h"

namespace assay::inline kernels {

// What a limit is multiplied by: 1 on data whose roundings are random. For operators with rows.
absl::StatusOr<double> RowOrderFactor(const PrecisionSubject& subject);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_ROW_ORDERS_H_
