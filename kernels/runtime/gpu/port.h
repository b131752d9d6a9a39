// Defines the language of GPU kernels: one source that nvcc compiles as CUDA, hipcc as HIP, and any
// other compiler as plain C++ for the SIMT emulator of kernels/simt. This is the only place where
// the preprocessor chooses.
//
// A kernel is a function marked ASSAY_GLOBAL; helpers are marked ASSAY_DEVICE.
//   Thread(), Block(), BlockExtent(), GridExtent()   indices and extents, in x y z
//   Lane(), WaveWidth()                              32 on NVIDIA and RDNA, 64 on CDNA
//   SyncBlock()                                      all threads of the block
//   ShuffleXor, ShuffleFrom                          all lanes of the wave must take part
//   Ballot(p)                                        lanes of the wave for which p holds
//   ASSAY_SHARED(type, name, count)                  memory of the block, 16-byte aligned
//   DynamicShared()                                  the launch's shared bytes, 16-byte aligned
//   ASSAY_BOUNDS(threads, blocks)                    limits registers so that these blocks fit
//   ASSAY_UNROLL                                     before a loop whose arrays are registers
//   ASSAY_UNROLL_BY(n), ASSAY_UNROLL_BY_4            before a loop that is unrolled in part
//   ASSAY_ROLLED                                     before a loop that must not be unrolled
//   ASSAY_OUTLINE                                    a device function that is not inlined
//   ASSAY_GRID_CONSTANT                              a kernel parameter whose address is taken
//   AtomicAdd, AtomicMin, AtomicMax                  integers, so order does not change results
//   LoadRelaxed                                      reads a word that atomics may change
//   Prefetch                                         device memory that is read soon
//   Fma, Product                                     exactly rounded, never fused further
//   Exp, Exp2, Erfc                                  within 2, 2 and 5 ulp; Exp2 may flush to 0
//   Max, MaxNumber                                   Max: NaN if one is; MaxNumber: the other one
//   FromHalf, ToHalf, FromBFloat, ToBFloat           16-bit codes, rounded to nearest even; each
//                                                    device has its own NaN code
// Launch(kernel, grid, block, shared bytes, stream, arguments…) starts a kernel.
//
// Only kernels include this file, never a header that host code includes.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_PORT_H_
#define ASSAY_KERNELS_RUNTIME_GPU_PORT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/runtime/gpu/handles.h"

#if defined(__HIPCC__) || defined(__HIP__)
#define ASSAY_GPU_HIP 1
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#elif defined(__CUDACC__)
#define ASSAY_GPU_CUDA 1
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#define ASSAY_GPU_EMULATED 1
#include "kernels/simt/engine.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/numerics/convert.h"
#endif

#if defined(ASSAY_GPU_EMULATED)
#define ASSAY_GLOBAL
#define ASSAY_DEVICE inline
#define ASSAY_DEVICE_MEMBER
#define ASSAY_OUTLINE inline __attribute__((noinline))
#define ASSAY_GRID_CONSTANT
#define ASSAY_UNROLL
#define ASSAY_UNROLL_BY_4
#define ASSAY_ROLLED
#define ASSAY_UNROLL_BY(n)
#define ASSAY_BOUNDS(threads, blocks)
#define ASSAY_SHARED(type, name, count) \
  const ::assay::simt::SharedArray<type, count> name {}
#else
#define ASSAY_GLOBAL __global__
#define ASSAY_DEVICE __device__ __forceinline__
#define ASSAY_DEVICE_MEMBER __device__ __forceinline__
#define ASSAY_OUTLINE inline __device__ __noinline__
#if defined(ASSAY_GPU_CUDA)
#define ASSAY_GRID_CONSTANT __grid_constant__
#else
#define ASSAY_GRID_CONSTANT
#endif
#define ASSAY_PRAGMA(text) _Pragma(#text)
#define ASSAY_UNROLL _Pragma("unroll")
#define ASSAY_UNROLL_BY_4 _Pragma("unroll 4")
#define ASSAY_ROLLED _Pragma("unroll 1")
#define ASSAY_UNROLL_BY(n) ASSAY_PRAGMA(unroll n)
#define ASSAY_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define ASSAY_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#endif

namespace assay::inline kernels::gpu {

#if defined(ASSAY_GPU_EMULATED)
using Extent = simt::Dim3;
inline constexpr ErrorCode kLaunchFailure = 719;  // CUDA's "unspecified launch failure"
#else
using Extent = dim3;
#endif

// Shared memory that a block may have [bytes]: on every device that is compiled for, and on those
// that have most. If a launch needs more than the first, the launcher asks the device.
#if defined(ASSAY_GPU_CUDA)
inline constexpr std::size_t kLeastSharedBytes = 99 << 10;
inline constexpr std::size_t kMostSharedBytes = 227 << 10;
#elif defined(ASSAY_GPU_HIP)
inline constexpr std::size_t kLeastSharedBytes = 64 << 10;
inline constexpr std::size_t kMostSharedBytes = 64 << 10;
#else
inline constexpr std::size_t kLeastSharedBytes = 64 << 10;
inline constexpr std::size_t kMostSharedBytes = 227 << 10;
#endif

#if defined(ASSAY_GPU_EMULATED)

ASSAY_DEVICE Extent Thread() { return simt::Here().thread; }
ASSAY_DEVICE Extent Block() { return simt::Here().block; }
ASSAY_DEVICE Extent BlockExtent() { return simt::Here().block_extent; }
ASSAY_DEVICE Extent GridExtent() { return simt::Here().grid_extent; }
ASSAY_DEVICE int WaveWidth() { return simt::WaveWidth(); }
ASSAY_DEVICE int Lane() { return simt::Here().lane; }
ASSAY_DEVICE void SyncBlock(simt::Where where = simt::Where::current()) { simt::SyncBlock(where); }

template <class T>
ASSAY_DEVICE T ShuffleFrom(T value, int lane, simt::Where where = simt::Where::current()) {
  return simt::Shuffle(value, lane, simt::kFullWave, where);
}
template <class T>
ASSAY_DEVICE T ShuffleXor(T value, int bits, simt::Where where = simt::Where::current()) {
  return simt::Shuffle(value, Lane() ^ bits, simt::kFullWave, where);
}
ASSAY_DEVICE std::uint64_t Ballot(bool predicate, simt::Where where = simt::Where::current()) {
  return simt::Ballot(predicate, simt::kFullWave, where);
}

ASSAY_DEVICE void AtomicAdd(unsigned long long* sum, unsigned long long value) {
  __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
}
ASSAY_DEVICE void AtomicMin(unsigned long long* least, unsigned long long value) {
  unsigned long long seen = __atomic_load_n(least, __ATOMIC_RELAXED);
  while (value < seen && !__atomic_compare_exchange_n(least, &seen, value, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
}
ASSAY_DEVICE void AtomicMax(unsigned long long* largest, unsigned long long value) {
  unsigned long long seen = __atomic_load_n(largest, __ATOMIC_RELAXED);
  while (value > seen && !__atomic_compare_exchange_n(largest, &seen, value, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
}
ASSAY_DEVICE unsigned long long LoadRelaxed(const unsigned long long* value) {
  return __atomic_load_n(value, __ATOMIC_RELAXED);
}
// Reads the byte, so that an address outside its tensor is found.
ASSAY_DEVICE void Prefetch(const void* at) { (void)*static_cast<const volatile char*>(at); }

ASSAY_DEVICE float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ASSAY_DEVICE double Fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
ASSAY_DEVICE int LeadingZeros(std::uint32_t v) { return v == 0 ? 32 : __builtin_clz(v); }

// A device's functions are not the host's: half of their results differ in the last bit. Powers of
// two do not, for both have e^0 and 2^n exactly.
template <class T>
ASSAY_DEVICE T Otherwise(T y) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const auto bits = std::bit_cast<Bits>(y);
  const Bits mantissa = bits << (sizeof(T) == 4 ? 9 : 12);
  if (mantissa == 0 || !(y - y == 0) || (bits >> 2 & 1) == 0) return y;
  return std::bit_cast<T>(bits ^ 1);
}
ASSAY_DEVICE float Exp(float x) { return Otherwise(std::exp(x)); }
ASSAY_DEVICE double Exp(double x) { return Otherwise(std::exp(x)); }
ASSAY_DEVICE float Exp2(float x) { return Otherwise(std::exp2(x)); }
ASSAY_DEVICE double Exp2(double x) { return Otherwise(std::exp2(x)); }
ASSAY_DEVICE float Erfc(float x) { return Otherwise(std::erfc(x)); }
ASSAY_DEVICE double Erfc(double x) { return Otherwise(std::erfc(x)); }
ASSAY_DEVICE float Sqrt(float x) { return std::sqrt(x); }
ASSAY_DEVICE float Max(float a, float b) { return a > b || a != a ? a : b; }
ASSAY_DEVICE double Max(double a, double b) { return a > b || a != a ? a : b; }
ASSAY_DEVICE float MaxNumber(float a, float b) { return std::fmax(a, b); }
ASSAY_DEVICE double MaxNumber(double a, double b) { return std::fmax(a, b); }
ASSAY_DEVICE void* DynamicShared() { return simt::DynamicShared(); }

ASSAY_DEVICE std::uint32_t BitsOf(float v) { return std::bit_cast<std::uint32_t>(v); }
ASSAY_DEVICE float FloatOf(std::uint32_t bits) { return std::bit_cast<float>(bits); }
ASSAY_DEVICE float FromHalf(std::uint16_t code) { return ToFloat(DType::kF16, code); }
ASSAY_DEVICE std::uint16_t ToHalf(float v) {
  return static_cast<std::uint16_t>(RoundToFormat(v, DType::kF16));
}

template <class Kernel, class... Arguments>
ErrorCode Launch(Kernel kernel, Extent grid, Extent block, std::size_t shared_bytes, Stream,
                 Arguments... arguments) {
  return simt::Launch(grid, block, shared_bytes, [&] { kernel(arguments...); }) ? kOk
                                                                                : kLaunchFailure;
}

#else  // a real device

struct Index {
  unsigned x, y, z;
};
ASSAY_DEVICE Index Thread() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
ASSAY_DEVICE Index Block() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
ASSAY_DEVICE Index BlockExtent() { return {blockDim.x, blockDim.y, blockDim.z}; }
ASSAY_DEVICE Index GridExtent() { return {gridDim.x, gridDim.y, gridDim.z}; }
ASSAY_DEVICE void SyncBlock() { __syncthreads(); }

#if defined(ASSAY_GPU_CUDA)
ASSAY_DEVICE int WaveWidth() { return 32; }
inline constexpr unsigned kAllLanes = 0xffffffffU;
template <class T>
ASSAY_DEVICE T ShuffleFrom(T value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}
template <class T>
ASSAY_DEVICE T ShuffleXor(T value, int bits) {
  return __shfl_xor_sync(kAllLanes, value, bits);
}
ASSAY_DEVICE std::uint64_t Ballot(bool predicate) { return __ballot_sync(kAllLanes, predicate); }
#else
ASSAY_DEVICE int WaveWidth() { return warpSize; }
template <class T>
ASSAY_DEVICE T ShuffleFrom(T value, int lane) {
  return __shfl(value, lane);
}
template <class T>
ASSAY_DEVICE T ShuffleXor(T value, int bits) {
  return __shfl_xor(value, bits);
}
ASSAY_DEVICE std::uint64_t Ballot(bool predicate) { return __ballot(predicate); }
#endif

ASSAY_DEVICE int Lane() {
  const unsigned linear = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return static_cast<int>(linear % static_cast<unsigned>(WaveWidth()));
}

ASSAY_DEVICE void AtomicAdd(unsigned long long* sum, unsigned long long value) {
  atomicAdd(sum, value);
}
ASSAY_DEVICE void AtomicMin(unsigned long long* least, unsigned long long value) {
  atomicMin(least, value);
}
ASSAY_DEVICE void AtomicMax(unsigned long long* largest, unsigned long long value) {
  atomicMax(largest, value);
}
ASSAY_DEVICE unsigned long long LoadRelaxed(const unsigned long long* value) {
  return *static_cast<const volatile unsigned long long*>(value);
}
#if defined(ASSAY_GPU_CUDA)
ASSAY_DEVICE void Prefetch(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(at)));
}
#else
ASSAY_DEVICE void Prefetch(const void*) {}
#endif

ASSAY_DEVICE float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
ASSAY_DEVICE double Fma(double a, double b, double c) { return __fma_rn(a, b, c); }
ASSAY_DEVICE int LeadingZeros(std::uint32_t v) { return __clz(static_cast<int>(v)); }
ASSAY_DEVICE float Exp(float x) { return expf(x); }
ASSAY_DEVICE double Exp(double x) { return exp(x); }
#if defined(ASSAY_GPU_CUDA)
ASSAY_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
ASSAY_DEVICE float Exp2(float x) { return exp2f(x); }
#endif
ASSAY_DEVICE double Exp2(double x) { return exp2(x); }
ASSAY_DEVICE float Erfc(float x) { return erfcf(x); }
ASSAY_DEVICE double Erfc(double x) { return erfc(x); }
ASSAY_DEVICE float Sqrt(float x) { return sqrtf(x); }  // HIP's __fsqrt_rn is not correctly rounded
#if defined(ASSAY_GPU_CUDA)
ASSAY_DEVICE float Max(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}
#else
ASSAY_DEVICE float Max(float a, float b) { return a > b || a != a ? a : b; }
#endif
ASSAY_DEVICE double Max(double a, double b) { return a > b || a != a ? a : b; }
ASSAY_DEVICE float MaxNumber(float a, float b) { return fmaxf(a, b); }
ASSAY_DEVICE double MaxNumber(double a, double b) { return fmax(a, b); }
ASSAY_DEVICE void* DynamicShared() {
  extern __shared__ __align__(16) unsigned char assay_dynamic_shared[];
  return assay_dynamic_shared;
}

ASSAY_DEVICE std::uint32_t BitsOf(float v) { return __float_as_uint(v); }
ASSAY_DEVICE float FloatOf(std::uint32_t bits) { return __uint_as_float(bits); }
ASSAY_DEVICE float FromHalf(std::uint16_t code) { return __half2float(__ushort_as_half(code)); }
ASSAY_DEVICE std::uint16_t ToHalf(float v) { return __half_as_ushort(__float2half_rn(v)); }

inline constexpr std::size_t kSharedBytesOfAnyLaunch = 48 << 10;  // a kernel must opt in to more

// Starts a kernel. It returns errors of the launch itself. Errors of the execution show when the
// stream is synchronised.
template <class Kernel, class... Arguments>
ErrorCode Launch(Kernel kernel, Extent grid, Extent block, std::size_t shared_bytes, Stream stream,
                 Arguments... arguments) {
  // clang-format off
#if defined(ASSAY_GPU_CUDA)
  if (shared_bytes > kSharedBytesOfAnyLaunch) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (error != cudaSuccess) {
      (void)cudaGetLastError();  // else the next launch would report it
      return error;
    }
  }
  kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream)>>>(arguments...);
  return cudaGetLastError();
#else
  kernel<<<grid, block, shared_bytes, static_cast<hipStream_t>(stream)>>>(arguments...);
  return hipGetLastError();
#endif
  // clang-format on
}

#endif

// a·b as one rounded operation. The compiler may fuse a plain product with a later addition, so
// that it differs from the same product elsewhere. -0 becomes +0.
template <class T>
ASSAY_DEVICE T Product(T a, T b) {
  return Fma(a, b, T{0});
}

// The two words of a product. It is one instruction on NVIDIA. With 64-bit arithmetic the compiler
// does not see that the upper words are 0.
struct WideProduct {
  std::uint32_t low;
  std::uint32_t high;
};
ASSAY_DEVICE WideProduct MultiplyWide(std::uint32_t a, std::uint32_t b) {
#if defined(ASSAY_GPU_CUDA)
  WideProduct p;
  asm("{ .reg .u64 p; mul.wide.u32 p, %2, %3; mov.b64 {%0, %1}, p; }"
      : "=r"(p.low), "=r"(p.high)
      : "r"(a), "r"(b));
  return p;
#else
  const std::uint64_t p = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(p >> 32)};
#endif
}

// The bits of the largest float that is not above v. v is not 0.
ASSAY_DEVICE std::uint32_t TruncatedToFloatBits(std::uint32_t v) {
#if defined(ASSAY_GPU_CUDA)
  return BitsOf(__uint2float_rz(v));
#else
  const int lz = LeadingZeros(v);
  return (static_cast<std::uint32_t>(158 - lz) << 23) | (((v << lz) >> 8) & 0x7fffffU);
#endif
}

// One instruction each on NVIDIA, which rounds NaN to 0x7fff, as ToHalf does. Written out,
// FromBFloat would be two instructions (for the upper half of a word) and ToBFloat nine.
ASSAY_DEVICE float FromBFloat(std::uint16_t code) {
#if defined(ASSAY_GPU_CUDA)
  float v;
  asm("mov.b32 %0, {%1, %2};" : "=f"(v) : "h"(std::uint16_t{0}), "h"(code));
  return v;
#else
  return FloatOf(std::uint32_t{code} << 16);
#endif
}
ASSAY_DEVICE std::uint16_t ToBFloat(float v) {
#if defined(ASSAY_GPU_CUDA)
  std::uint16_t code;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(v));
  return code;
#else
  const std::uint32_t bits = BitsOf(v);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
#endif
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_PORT_H_
