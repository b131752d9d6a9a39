// Assay's own CPU kernels under test: SIMD chosen at run time by Highway, all
// cores through ParallelFor. One factory an op; each op's file says what it
// computes, in what arithmetic and how exactly.
//
// The entries are plain values for the registry; thread-safe. The kernels take
// their workspace from the device's arena when they are made, and give the same
// bits in every launch, whatever the number of threads.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_H_

#include "kernels/providers/provider.h"

namespace assay {

KernelEntry BuiltinGemmCpu();
KernelEntry BuiltinConvCpu();
KernelEntry BuiltinAttentionCpu();
KernelEntry BuiltinSoftmaxCpu();
KernelEntry BuiltinLayerNormCpu();
KernelEntry BuiltinCopyCpu();
KernelEntry BuiltinDequantSoftmaxCpu();

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_H_
