// Marks a function of kernels/numerics that GPU kernels call too: the same source on
// host and device, hence the same bits. constexpr functions need no mark for clang's
// HIP, and nvcc takes them with --expt-relaxed-constexpr; whatever is not constexpr
// (it calls fma, say) is marked.
#ifndef ASSAY_KERNELS_NUMERICS_HOST_DEVICE_H_
#define ASSAY_KERNELS_NUMERICS_HOST_DEVICE_H_

#if defined(__CUDACC__) || defined(__HIPCC__)
#define ASSAY_HOST_DEVICE __host__ __device__
#else
#define ASSAY_HOST_DEVICE
#endif

#endif  // ASSAY_KERNELS_NUMERICS_HOST_DEVICE_H_
