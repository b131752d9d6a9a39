// Implements the compare pass on the CPU; kernels/runtime/compare.h has the rule.
//
// Both functions return the same result: sums may differ in their last bits, and everything else is
// the same to the bit. The result depends on neither the number of threads nor the instruction set,
// except for the last bits of the sums. INVALID_ARGUMENT names the wrong field of the request. Only
// one thread may call them at a time.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CPU_H_

#include "absl/status/statusor.h"
#include "kernels/runtime/compare.h"

namespace assay::inline kernels {

// Compares in SIMD on all cores.
absl::StatusOr<CompareResult> CompareCpu(const CompareRequest& request);

// Compares element by element. Tests hold CompareCpu to this specification.
absl::StatusOr<CompareResult> ComparePlain(const CompareRequest& request);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CPU_H_
