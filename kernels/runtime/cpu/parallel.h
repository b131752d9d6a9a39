// Runs a loop on all cores. The thread pool is OpenMP's, which oneDNN and OpenBLAS share, so that
// no two pools compete for the cores.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_PARALLEL_H_
#define ASSAY_KERNELS_RUNTIME_CPU_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace assay::inline kernels {

// The most threads that ParallelFor uses.
int ParallelWidth();

// Calls body(begin, end) for disjoint ranges that cover [0, n). Each thread gets at most one range,
// in the order of the threads. A range has at least `grain` elements. If n <= grain, the caller
// runs everything. `body` must not throw, and calls must not be nested.
void ParallelFor(std::int64_t n, std::int64_t grain,
                 absl::FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

// The same for uneven work: calls body(i) for each i in [0, n) on the thread that becomes free
// next. Which thread gets which varies, so results must not depend on it.
void ParallelForDynamic(std::int64_t n, absl::FunctionRef<void(std::int64_t i)> body);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_PARALLEL_H_
