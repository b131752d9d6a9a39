// RowAddends: the numbers that an operator on rows adds up in each row.
#ifndef ASSAY_KERNELS_OPS_COMMON_ROW_ADDENDS_H_
#define ASSAY_KERNELS_OPS_COMMON_ROW_ADDENDS_H_

#include "kernels/ops/case.h"

namespace assay::inline kernels {

struct RowAddends {
  bool exponentials = false;  // as a softmax; else squares, as a norm
  bool arguments = false;     // the first input is the arguments of the exponentials
  bool elements = false;      // for the mean, from which the squares are then counted
};

RowAddends RowAddendsOf(const Case& c);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_ROW_ADDENDS_H_
