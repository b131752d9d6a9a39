// The fused compare pass of the CPU; see kernels/runtime/compare.h for the rule.
//
// Both functions return the same result (sums to rounding, everything else to the
// bit), which depends on neither the number of threads nor the instruction set
// but for the last bits of the sums. INVALID_ARGUMENT names the field of the
// request that is wrong. Callable from one thread at a time.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CPU_H_

#include "absl/status/statusor.h"
#include "kernels/runtime/compare.h"

namespace assay {

// One SIMD pass over all cores.
absl::StatusOr<CompareResult> CompareCpu(const CompareRequest& request);

// The same, an element at a time: the specification CompareCpu is tested against.
absl::StatusOr<CompareResult> ComparePlain(const CompareRequest& request);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CPU_H_
