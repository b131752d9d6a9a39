#include "kernels/runtime/cpu/parallel.h"

#include <omp.h>

#include <algorithm>

namespace assay::inline kernels {

int ParallelWidth() { return omp_get_max_threads(); }

void ParallelFor(std::int64_t n, std::int64_t grain,
                 absl::FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (n <= 0) return;
  const std::int64_t width = std::min<std::int64_t>(
      ParallelWidth(), std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain)));
  if (n <= grain || width == 1) {
    body(0, n);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(width))
  {
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t self = omp_get_thread_num();
    const std::int64_t begin = n * self / threads;
    const std::int64_t end = n * (self + 1) / threads;
    if (begin < end) body(begin, end);
  }
}

void ParallelForDynamic(std::int64_t n, absl::FunctionRef<void(std::int64_t)> body) {
  if (n <= 1 || ParallelWidth() == 1) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

}  // namespace assay::kernels
