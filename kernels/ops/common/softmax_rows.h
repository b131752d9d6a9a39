// The identities of outputs that are softmaxes along rows: each lies in [0, 1 + T], each
// row sums to 1.
#ifndef ASSAY_KERNELS_OPS_COMMON_SOFTMAX_ROWS_H_
#define ASSAY_KERNELS_OPS_COMMON_SOFTMAX_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

// "range" and "row-sums" over all rows without a NaN in the reference. sum_bound(row) is
// how far the row's sum may be from 1 (softmax_sums.h); called from several threads. View
// and buffers in this process's memory.
std::vector<Identity> CheckRowsOfSoftmax(const TensorView& output, const OutputRounding& rounding,
                                         const ReferenceBuffers& reference,
                                         absl::FunctionRef<double(std::int64_t row)> sum_bound);

// What is said of the first relation that is broken.
std::string RowSumMessage(std::int64_t row, double sum, double bound);
std::string RangeMessage(std::int64_t row, std::int64_t col, double y);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_SOFTMAX_ROWS_H_
