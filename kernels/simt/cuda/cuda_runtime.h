// CUDA's device language as C++, for the emulator: each thread of a block runs this code by itself.
// It has what one kernel of one file needs: indices, shared memory, barriers, wave operations,
// atomic operations, vector types, fp16 and bf16. It has no host functions and no launches
// (<<<…>>>), no textures, no tensor cores and no inline PTX.
//
// ASSAY_SIMT is defined, so that a file can leave out its host code: #ifndef ASSAY_SIMT.
#ifndef ASSAY_SIMT_CUDA_RUNTIME_H_
#define ASSAY_SIMT_CUDA_RUNTIME_H_

#include <stddef.h>

// The C library's own would copy without being seen. The names hold for what the compiler itself
// calls, too: std::copy and assignments of large structs.
extern "C" {
void* memcpy(void* to, const void* from, size_t bytes) noexcept __asm__("assay_simt_memcpy");
void* memmove(void* to, const void* from, size_t bytes) noexcept __asm__("assay_simt_memmove");
void* memset(void* to, int value, size_t bytes) noexcept __asm__("assay_simt_memset");
int memcmp(const void* a, const void* b, size_t bytes) noexcept __asm__("assay_simt_memcmp");
}

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <source_location>
#include <type_traits>

#include "assay_simt_types.h"

#define ASSAY_SIMT 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
// The library's thread-local memory is the block's shared memory (kernels/simt/module_memory.h).
#define __shared__ thread_local __attribute__((used))

// A function whose accesses are not the kernel's own.
#define ASSAY_SIMT_UNCHECKED __attribute__((noinline, no_sanitize("thread")))

// ---- Where a thread is ----

extern "C" {
uint3 assay_simt_thread_idx() __attribute__((const));
uint3 assay_simt_block_idx() __attribute__((const));
int assay_simt_lane() __attribute__((const));
void assay_simt_atomic(const void* at, size_t bytes);
void assay_simt_fence();
void assay_simt_fence_block();
float assay_simt_half_to_float(unsigned short code) __attribute__((const));
unsigned short assay_simt_to_half(double value) __attribute__((const));
float assay_simt_bfloat_to_float(unsigned short code) __attribute__((const));
unsigned short assay_simt_to_bfloat(double value) __attribute__((const));
}
dim3 assay_simt_block_dim() __attribute__((const));
dim3 assay_simt_grid_dim() __attribute__((const));

#define threadIdx (assay_simt_thread_idx())
#define blockIdx (assay_simt_block_idx())
#define blockDim (assay_simt_block_dim())
#define gridDim (assay_simt_grid_dim())
inline constexpr int warpSize = 32;

// ---- Barriers, and operations of a wave ----

namespace assay::inline kernels::simt {

using Where = std::source_location;
struct Exchanged {
  uint64_t words[2] = {0, 0};
};
void SyncBlock(Where where);
// How many threads of the block have a predicate that holds; a barrier, too.
int SyncCount(bool predicate, Where where);
void SyncWave(uint64_t mask, Where where);
uint64_t Ballot(bool predicate, uint64_t mask, Where where);
Exchanged Exchange(Exchanged value, int source_lane, uint64_t mask, Where where);

template <class T>
ASSAY_SIMT_UNCHECKED T Shuffle(unsigned mask, T value, int source, Where where) {
  static_assert(sizeof(T) <= sizeof(Exchanged) && std::is_trivially_copyable_v<T>);
  Exchanged given;
  __builtin_memcpy(given.words, &value, sizeof(T));
  given = Exchange(given, source, mask, where);
  __builtin_memcpy(static_cast<void*>(&value), given.words, sizeof(T));
  return value;
}

}  // namespace assay::kernels::simt

#define ASSAY_SIMT_WHERE assay::simt::Where where = assay::simt::Where::current()

inline void __syncthreads(ASSAY_SIMT_WHERE) { assay::simt::SyncBlock(where); }
inline int __syncthreads_count(int predicate, ASSAY_SIMT_WHERE) {
  return assay::simt::SyncCount(predicate != 0, where);
}
inline int __syncthreads_or(int predicate, ASSAY_SIMT_WHERE) {
  return assay::simt::SyncCount(predicate != 0, where) > 0;
}
inline int __syncthreads_and(int predicate, ASSAY_SIMT_WHERE) {
  return assay::simt::SyncCount(predicate == 0, where) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU, ASSAY_SIMT_WHERE) {
  assay::simt::SyncWave(mask, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, ASSAY_SIMT_WHERE) {
  return static_cast<unsigned>(assay::simt::Ballot(predicate != 0, mask, where));
}
inline int __any_sync(unsigned mask, int predicate, ASSAY_SIMT_WHERE) {
  return assay::simt::Ballot(predicate != 0, mask, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, ASSAY_SIMT_WHERE) {
  return assay::simt::Ballot(predicate == 0, mask, where) == 0;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, ASSAY_SIMT_WHERE) {
  const int begin = assay_simt_lane() & ~(width - 1);
  return assay::simt::Shuffle(mask, value, begin | (source & (width - 1)), where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, ASSAY_SIMT_WHERE) {
  const int lane = assay_simt_lane(), begin = lane & ~(width - 1);
  const int source = lane - static_cast<int>(by);
  return assay::simt::Shuffle(mask, value, source < begin ? lane : source, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, ASSAY_SIMT_WHERE) {
  const int lane = assay_simt_lane(), end = (lane & ~(width - 1)) + width;
  const int source = lane + static_cast<int>(by);
  return assay::simt::Shuffle(mask, value, source >= end ? lane : source, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, ASSAY_SIMT_WHERE) {
  const int lane = assay_simt_lane(), end = (lane & ~(width - 1)) + width;
  const int source = lane ^ bits;
  return assay::simt::Shuffle(mask, value, source >= end ? lane : source, where);
}
unsigned __activemask() __attribute__((error("the emulator has no __activemask: say the lanes")));

// ---- Atomic operations and fences ----

inline void __threadfence() { assay_simt_fence(); }
inline void __threadfence_block() { assay_simt_fence_block(); }
inline void __threadfence_system() { assay_simt_fence(); }

namespace assay::inline kernels::simt {
// The threads take turns, so nothing comes between the two halves.
template <class T, class Change>
ASSAY_SIMT_UNCHECKED T Update(T* at, Change change) {
  assay_simt_atomic(at, sizeof(T));
  const T old = *at;
  *at = change(old);
  return old;
}
template <class T>
using Same = std::type_identity_t<T>;
}  // namespace assay::kernels::simt

#define ASSAY_SIMT_ATOMIC(name, result)                                 \
  template <class T>                                                    \
  T name(T* at, assay::simt::Same<T> v) {                               \
    return assay::simt::Update(at, [v](T old) -> T { return result; }); \
  }
ASSAY_SIMT_ATOMIC(atomicAdd, static_cast<T>(old + v))
ASSAY_SIMT_ATOMIC(atomicSub, static_cast<T>(old - v))
ASSAY_SIMT_ATOMIC(atomicExch, (static_cast<void>(old), v))
ASSAY_SIMT_ATOMIC(atomicMin, v < old ? v : old)
ASSAY_SIMT_ATOMIC(atomicMax, v > old ? v : old)
ASSAY_SIMT_ATOMIC(atomicAnd, static_cast<T>(old& v))
ASSAY_SIMT_ATOMIC(atomicOr, static_cast<T>(old | v))
ASSAY_SIMT_ATOMIC(atomicXor, static_cast<T>(old ^ v))
ASSAY_SIMT_ATOMIC(atomicInc, old >= v ? T{0} : static_cast<T>(old + 1))
ASSAY_SIMT_ATOMIC(atomicDec, old == T{0} || old > v ? v : static_cast<T>(old - 1))
#undef ASSAY_SIMT_ATOMIC
template <class T>
T atomicCAS(T* at, assay::simt::Same<T> expected, assay::simt::Same<T> v) {
  return assay::simt::Update(at, [=](T old) -> T { return old == expected ? v : old; });
}

// ---- Loads, and arithmetic ----

// Macros, so that a message names the author's line.
#define __ldg(at) (*(at))
#define __ldca(at) (*(at))
#define __ldcg(at) (*(at))
#define __ldcs(at) (*(at))
#define __stcs(at, value) (*(at) = (value))
#define __stcg(at, value) (*(at) = (value))

template <class A, class B,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return __builtin_fmin(a, b);
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
template <class A, class B,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return __builtin_fmax(a, b);
  return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}

inline float rsqrtf(float x) { return static_cast<float>(1 / sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10, x); }
inline float exp10f(float x) { return powf(10, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
// None of them is fused with another operation.
inline float __fadd_rn(float a, float b) { return fmaf(a, 1, b); }
inline float __fsub_rn(float a, float b) { return fmaf(a, 1, -b); }
inline float __fmul_rn(float a, float b) {
  volatile float product = a * b;
  return product;
}
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1.0F : 0.0F; }
inline int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1U) << (31 - i);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F __builtin_nanf("")

#include "assay_simt_half.h"

#endif  // ASSAY_SIMT_CUDA_RUNTIME_H_
