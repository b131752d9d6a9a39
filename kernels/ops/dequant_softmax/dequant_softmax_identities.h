// Checks the identities that every dequant_softmax keeps, whatever its data, and makes its probes.
//   range     each output lies in [0, 1 + T]
//   row-sums  each row sums to 1, within the bound of softmax_sums.h: errors of the logits
//             cancel in it, so that it is narrower than the elements' own bounds
//   argmax    data whose logits are exact in FP32, whatever the order of the sums, and lie
//             at least 128 apart or not at all: a is ±1 or 0, some 64 of a row not 0; w is -128 or
//             -127; the scales are ±128. exp of the next logit is then 0 in FP32, and a row is 1/n
//             at its n largest logits and 0 elsewhere, exactly, but for the roundings of 1/n and of
//             n equal exponentials that are not quite 1, because the logits were scaled. Logits
//             reach beyond what exp holds, so a missing maximum overflows. There are so many rows
//             that most columns have the largest logit of one, if that is no more than 2^23
//             products: a maximum without a column overflows there, too.
//   far-below-0  logits of one product each: the first of a row is -2^60 and has all weight, all
//             others are -2^61. If a kernel holds intermediate results in fp16, -2^16 and -2^17
//   equal-columns  of a user's kernel: some hundred logits of a row are 0, others in each row, and
//             all others are -128 or less. Any column that is left out of the sum shows, if there
//             are up to some thousands
//   last-column  equal activations and weights, judged by the bound: all logits are 0 but the last
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_IDENTITIES_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_IDENTITIES_H_

#include <span>
#include <vector>

#include "kernels/ops/op.h"

namespace assay::inline kernels {

// "range" and "row-sums". Views and buffers in this process's memory.
std::vector<Identity> CheckDequantSoftmaxRows(const Case& c, const Plan& plan,
                                              std::span<const TensorView> inputs,
                                              const TensorView& output,
                                              const ReferenceBuffers& reference);

// The middle of the scales that a case has by default.
double UsualScale(std::int64_t k);

std::vector<KernelProbe> DequantSoftmaxProbes(const Case& c, const Plan& plan);

// The data of "argmax".
void SetArgmaxData(const Case& c, Plan& plan);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_IDENTITIES_H_
