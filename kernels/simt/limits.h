// Limits: the most that a launch on the emulator may take.
#ifndef ASSAY_KERNELS_SIMT_LIMITS_H_
#define ASSAY_KERNELS_SIMT_LIMITS_H_

#include <cstddef>

namespace assay::inline kernels::simt {

// The most shared memory that a launch may ask for [bytes]: what a block of a large device has.
inline constexpr std::size_t kMostDynamicShared = 227 << 10;

// The most that the arrays of a file may have [bytes]: what compilers for CUDA allow.
inline constexpr std::size_t kMostStaticShared = 48 << 10;

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_LIMITS_H_
