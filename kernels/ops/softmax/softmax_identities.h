// What every softmax keeps, whatever its data:
//   range     each output lies in [0, 1 + T]
//   row-sums  each row sums to 1 within
//             u_o + n·η/2 + u·(8 + h + 2·Σ r(|x − m| + |x| + |m|)) + u_i + n·w
// u_o and η are the output's unit roundoff and smallest subnormal (its smallest normal
// for η/2 where the kernel flushes), h = n the unknown depth of the reduction, u_i the
// roundoff of a narrower format the kernel declares, w what an exponential loses to
// underflow. |x| + |m| is for kernels that round the scaled maximum: an online one sums
// exponentials under a maximum that is not the last, and the roundings of the two differ. Terms in
// u and w count twice for fp64.
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/op.h"

namespace assay {

// Over all rows without a NaN in the reference. Views and buffers in this process's memory.
std::vector<Identity> CheckSoftmaxRows(const Case& c, const Plan& plan,
                                       std::span<const TensorView> inputs, const TensorView& output,
                                       const ReferenceBuffers& reference);

// What is said of the first relation that is broken.
std::string RowSumMessage(std::int64_t row, double sum, double bound);
std::string RangeMessage(std::int64_t row, std::int64_t col, double y);

// "shift": integers from c − 8 to c + 8, whose softmax is that of -8 to 8. c is so large
// that exp of the inputs themselves overflows, where the format holds such integers.
std::vector<KernelProbe> SoftmaxProbes(const Case& c);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_IDENTITIES_H_
