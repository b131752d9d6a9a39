// What a GPU reaches at best, as launches whose time tells it: memory in four directions,
// and nothing but multiply-adds. Whoever measures divides the bytes or operations that
// stand beside each by the seconds between two events.
//
// Data that the launches read should be random: constants switch fewer wires, and a
// device limited by its power runs them faster than real data.
#ifndef ASSAY_KERNELS_BENCH_CEILINGS_GPU_H_
#define ASSAY_KERNELS_BENCH_CEILINGS_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::gpu {

// Device memory aligned to 16 bytes; `bytes` of each operand, a multiple of 16.
ErrorCode LaunchStreamCopy(const void* from, void* to, std::int64_t bytes, Stream stream);
// to = a + factor·b, fp32: two operands read, one written.
ErrorCode LaunchStreamTriad(const float* a, const float* b, float factor, float* to,
                            std::int64_t bytes, Stream stream);
// Adds the 32-bit words of `from` to *sum (device memory) modulo 2^64, on `blocks` blocks:
// some 8 a multiprocessor.
ErrorCode LaunchStreamRead(const void* from, std::int64_t bytes, int blocks,
                           unsigned long long* sum, Stream stream);
// Fills with the word.
ErrorCode LaunchStreamWrite(void* to, std::uint32_t word, std::int64_t bytes, Stream stream);

inline constexpr int kChainThreads = 256;  // of a block
inline constexpr int kChains = 8;          // that a thread has under way at once

// `rounds` of x ← x·multiplier + addend in each of a thread's kChains chains, which
// begin at 1/(1 + chain); fp64, fp32, or fp16 two at a time. The chains' sum of each
// thread, as fp32 (fp64 for fp64; the two halves together for fp16), goes to
// sums[blocks·kChainThreads].
ErrorCode LaunchMultiplyAdds(DType dtype, int blocks, int rounds, double multiplier, double addend,
                             void* sums, Stream stream);
// Operations of a launch, two a multiply-add; 0 for other formats.
constexpr double MultiplyAddOperations(DType dtype, int blocks, int rounds) {
  const double each = dtype == DType::kF16                           ? 4.0
                      : dtype == DType::kF32 || dtype == DType::kF64 ? 2.0
                                                                     : 0.0;
  return each * kChains * kChainThreads * static_cast<double>(blocks) * rounds;
}

// Word `index` of the operands that a lane multiplies: numbers in ±[0.5, 1) of all
// mantissas, as codes of fp16 or bf16.
constexpr std::uint32_t MatrixOperand(DType dtype, std::uint32_t lane, std::uint32_t index) {
  std::uint32_t x = (lane * 8 + index + 1) * 0x9e3779b9U;
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x ^= x >> 13;
  return dtype == DType::kBF16 ? (x & 0x807f807fU) | 0x3f003f00U : (x & 0x83ff83ffU) | 0x38003800U;
}

// `rounds` of products of 16x16 by 16x8 tiles of fp16 or bf16, added to each of a group of
// 32 lanes' kChains accumulators, which begin at 0, 1, …; sums[blocks·kChainThreads] gets each
// lane's own sum.
ErrorCode LaunchMatrixProducts(DType dtype, int blocks, int rounds, float* sums, Stream stream);
constexpr double MatrixOperations(int blocks, int rounds) {
  return 2.0 * 16 * 16 * 8 * kChains * (kChainThreads / 32) * static_cast<double>(blocks) * rounds;
}

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_BENCH_CEILINGS_GPU_H_
