// Launches kernels whose time shows what a GPU reaches at best: four ways to move memory, and loops
// of nothing but multiply-adds. The caller measures the seconds between two events and divides the
// launch's bytes or operations by them.
//
// The data that a launch reads should be random: constants switch fewer wires, so a device that is
// limited by its power runs them faster than real data.
#ifndef ASSAY_KERNELS_BENCH_CEILINGS_GPU_H_
#define ASSAY_KERNELS_BENCH_CEILINGS_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Copies. All pointers of this file are device memory aligned to 16 bytes. `bytes` is the size of
// each operand, a multiple of 16.
ErrorCode LaunchStreamCopy(const void* from, void* to, std::int64_t bytes, Stream stream);
// to = a + factor·b in fp32. It reads two operands and writes one.
ErrorCode LaunchStreamTriad(const float* a, const float* b, float factor, float* to,
                            std::int64_t bytes, Stream stream);
// Adds the 32-bit words of `from` to *sum (device memory) modulo 2^64, with `blocks` blocks: about
// 8 for each multiprocessor.
ErrorCode LaunchStreamRead(const void* from, std::int64_t bytes, int blocks,
                           unsigned long long* sum, Stream stream);

inline constexpr int kChainThreads = 256;  // threads of a block
inline constexpr int kChains = 8;          // chains that a thread computes side by side

// Computes `rounds` times x ← x·multiplier + addend in each of a thread's kChains chains. A chain
// begins at 1/(1 + chain). The format is fp64, fp32, or fp16 (two numbers at a time). Each thread
// writes the sum of its chains to sums[blocks·kChainThreads], as fp64 for fp64 and as fp32
// otherwise; for fp16 both halves are added.
ErrorCode LaunchMultiplyAdds(DType dtype, int blocks, int rounds, double multiplier, double addend,
                             void* sums, Stream stream);
// The operations of a launch; a multiply-add counts two. 0 for other formats.
constexpr double MultiplyAddOperations(DType dtype, int blocks, int rounds) {
  const double each = dtype == DType::kF16                           ? 4.0
                      : dtype == DType::kF32 || dtype == DType::kF64 ? 2.0
                                                                     : 0.0;
  return each * kChains * kChainThreads * static_cast<double>(blocks) * rounds;
}

// Word `index` of the operands that a lane multiplies: two codes of fp16 or bf16, numbers in ±[0.5,
// 1) with random mantissas.
constexpr std::uint32_t MatrixOperand(DType dtype, std::uint32_t lane, std::uint32_t index) {
  std::uint32_t x = (lane * 8 + index + 1) * 0x9e3779b9U;
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x ^= x >> 13;
  return dtype == DType::kBF16 ? (x & 0x807f807fU) | 0x3f003f00U : (x & 0x83ff83ffU) | 0x38003800U;
}

// Computes `rounds` products of 16x16 by 16x8 tiles of fp16 or bf16. They are added to the kChains
// accumulators of each group of 32 lanes, which begin at 0, 1, …. Each lane writes its own sum to
// sums[blocks·kChainThreads].
ErrorCode LaunchMatrixProducts(DType dtype, int blocks, int rounds, float* sums, Stream stream);
constexpr double MatrixOperations(int blocks, int rounds) {
  constexpr int kGroups = kChainThreads / 32;
  return 2.0 * 16 * 16 * 8 * kChains * kGroups * static_cast<double>(blocks) * rounds;
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_BENCH_CEILINGS_GPU_H_
