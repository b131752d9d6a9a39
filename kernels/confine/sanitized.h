// Tells whether a sanitizer watches this program. The sanitizer's shadow memory is address space,
// its leak check traces its own process, and it keeps freed memory. Limits on these would end the
// program.
#ifndef ASSAY_KERNELS_CONFINE_SANITIZED_H_
#define ASSAY_KERNELS_CONFINE_SANITIZED_H_

namespace assay::inline kernels {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CONFINE_SANITIZED_H_
