// Two fp32 tensors held against each other: what a user's own reference, computed
// in the same format, is compared with. One read of both, and no bound but the
// tolerances given; for a verdict on a kernel see compare_cpu.h.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ALLCLOSE_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ALLCLOSE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/runtime/tensor.h"

namespace assay {

// Errors are taken in double precision, over elements where both are finite.
struct AllCloseResult {
  std::int64_t count = 0;
  std::int64_t finite_pairs = 0;
  // |a − e| > atol + rtol·|e|, or one is not finite and they are not the same
  // infinity; a NaN is close to nothing.
  std::int64_t mismatches = 0;
  std::int64_t first_mismatch = -1;
  double max_abs_error = 0.0;
  double max_rel_error = 0.0;  // |a − e| / (|e| + 1e-8)
  double sum_abs_error = 0.0;
  double sum_squared_error = 0.0;
  std::int64_t nan_count = 0;  // of `actual`
  std::int64_t inf_count = 0;

  double mean_abs_error() const;  // 0 where there is no finite pair
  double rms_error() const;
};

// Both dense, fp32 and of one count, or INVALID_ARGUMENT. The result does not
// depend on the number of threads.
absl::StatusOr<AllCloseResult> CompareAllCloseCpu(const TensorView& actual,
                                                  const TensorView& expected, double atol,
                                                  double rtol);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ALLCLOSE_H_
