// Checks the identities that every softmax keeps, whatever its data:
//   range     each output lies in [0, 1 + T]
//   row-sums  each row sums to 1, within the bound of softmax_sums.h
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/common/softmax_rows.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

// Over all rows without a NaN in the reference. Views and buffers in this process's memory.
std::vector<Identity> CheckSoftmaxRows(const Case& c, const Plan& plan,
                                       std::span<const TensorView> inputs, const TensorView& output,
                                       const ReferenceBuffers& reference);

// "shift": integers from c − 80 to c (8-bit floats: less), with weights of all sizes. c is so large
// that exp of the inputs themselves overflows, where the format holds such integers, and a power of
// two, which times log2(e) is not rounded.
//
// "falling": 0, -128, -256, … along each row. The elements are 1/l for the l zeros of a row, but
// for the roundings of exponential, sum and quotient: a constant in the denominator shows.
//
// "equal-columns", of a user's kernel: the same with some hundred zeros in a row, which lie
// elsewhere in each row. Any column that is left out of the sum shows, if rows have up to some
// thousands.
//
// "rows-apart": each row holds one value, 200 (fp64: 1000) or more below that of the row before it.
// The last is near -2^17, or the lowest number of the format. A single row holds this number.
//
// "each-column": -2^61, and -2^60 in one column, another one in each row. It has all weight. In
// fp16 they are -2^15 and -2^14, as where fp16 is declared for intermediates; in 8-bit floats 0 and
// the largest power of two.
//
// "last-column": 0, and 2^17 or the largest power of two of the format in the last column.
std::vector<KernelProbe> SoftmaxProbes(const Case& c, const Plan& plan);

// The data of "each-column".
void SetLargestColumns(const Case& c, Plan& plan);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_H_
