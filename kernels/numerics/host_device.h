// Defines the mark for functions that the host and GPU kernels both call: the same source gives the
// same bits on both. A function that is not constexpr (it calls fma, for example) needs the mark. A
// constexpr function needs none: clang's HIP accepts it as it is, and nvcc with
// --expt-relaxed-constexpr.
#ifndef ASSAY_KERNELS_NUMERICS_HOST_DEVICE_H_
#define ASSAY_KERNELS_NUMERICS_HOST_DEVICE_H_

#if defined(__CUDACC__) || defined(__HIPCC__)
#define ASSAY_HOST_DEVICE __host__ __device__
#else
#define ASSAY_HOST_DEVICE
#endif

#endif  // ASSAY_KERNELS_NUMERICS_HOST_DEVICE_H_
