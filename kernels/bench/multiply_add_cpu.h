// Runs loops of nothing but multiply-adds, which show what a core's arithmetic reaches at best.
#ifndef ASSAY_KERNELS_BENCH_MULTIPLY_ADD_CPU_H_
#define ASSAY_KERNELS_BENCH_MULTIPLY_ADD_CPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"

namespace assay::inline kernels::internal {

// A loop that runs on the calling thread. `run(n)` does n rounds.
struct MultiplyAddLoop {
  void (*run)(std::int64_t rounds) = nullptr;  // null if the core has no such instruction
  double operations = 0;                       // of one round; a multiply-add is two
};

// The loop of a format: fp64 and fp32 (FMA, or multiply and add), bf16 (VDPBF16PS), int8 (VPDPBUSD,
// or VPMADDUBSW). Other formats have no multiply-add of their own on a CPU.
MultiplyAddLoop MultiplyAddLoopOf(DType dtype);

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_BENCH_MULTIPLY_ADD_CPU_H_
