// Fills tensors on the CPU with patterns or with one code, in any format and with any strides.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_CPU_H_

#include "kernels/runtime/device.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Fills the logical elements with the codes that GenerateElement specifies.
void FillCpu(const FillSpec& spec, const TensorView& dst);

// Sets every logical element to one code.
void FillCode(std::uint64_t code, const TensorView& dst);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_CPU_H_
