// Assay's own CPU kernels under test. Highway chooses the SIMD target at run time, and ParallelFor
// uses all cores. There is one factory for each operator. Each operator's file says what it
// computes, in which arithmetic, and how exactly.
//
// The entries are plain values for the registry; any thread may make them. The kernels take their
// workspace from the device's arena when they are made. They give the same bits in every launch,
// whatever the number of threads.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_H_

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

KernelEntry BuiltinGemmCpu();
KernelEntry BuiltinConvCpu();
KernelEntry BuiltinAttentionCpu();
KernelEntry BuiltinSoftmaxCpu();
KernelEntry BuiltinLayerNormCpu();
KernelEntry BuiltinCopyCpu();
KernelEntry BuiltinDequantSoftmaxCpu();
KernelEntry BuiltinReduceCpu();
KernelEntry BuiltinElementwiseCpu();
KernelEntry BuiltinRopeCpu();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_H_
