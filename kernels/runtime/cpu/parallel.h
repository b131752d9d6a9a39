// All cores for one loop. The pool is OpenMP's, which oneDNN and OpenBLAS share,
// so that no two pools fight for the cores.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_PARALLEL_H_
#define ASSAY_KERNELS_RUNTIME_CPU_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace assay {

// Threads a ParallelFor uses at most.
int ParallelWidth();

// Calls body(begin, end) for disjoint ranges that cover [0, n), each of at least
// `grain` elements but the last, at most one range a thread, in index order of
// the threads; serial in the caller where n <= grain. `body` must not throw. Not
// to be nested.
void ParallelFor(std::int64_t n, std::int64_t grain,
                 absl::FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

// The same with ranges of `chunk` elements handed out as threads become free, for
// uneven work. The assignment of chunks to threads varies; results must not.
void ParallelForDynamic(std::int64_t n, std::int64_t chunk,
                        absl::FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_PARALLEL_H_
