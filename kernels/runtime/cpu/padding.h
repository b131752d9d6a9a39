// Guards the padding of a strided tensor: the elements between cols and ld and between batches,
// which a kernel must not write.
//
// The padding lies between the first element and the end of the last; the guard band covers the
// bytes behind it. For e2m1 only whole bytes of padding are guarded.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_PADDING_H_
#define ASSAY_KERNELS_RUNTIME_CPU_PADDING_H_

#include <cstdint>

#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

void WritePadding(unsigned char byte, const TensorView& view);

// Counts the bytes of padding that are not `byte`.
std::int64_t CountPaddingDamage(unsigned char byte, const TensorView& view);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_PADDING_H_
