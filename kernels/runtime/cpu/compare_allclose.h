// Compares two fp32 tensors with tolerances: an output with a user's own reference that was
// computed in the same format. It reads both once and knows no bound but the tolerances. For a
// verdict on a kernel see compare_cpu.h.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ALLCLOSE_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ALLCLOSE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/runtime/tensor.h"

namespace assay {

// The result. Errors are computed in double precision, over elements where both are finite.
struct AllCloseResult {
  std::int64_t count = 0;
  std::int64_t finite_pairs = 0;
  // A pair mismatches if |a − e| > atol + rtol·|e|. If one value is not finite, it mismatches
  // unless both are the same infinity. NaN always mismatches.
  std::int64_t mismatches = 0;
  std::int64_t first_mismatch = -1;
  double max_abs_error = 0.0;
  double max_rel_error = 0.0;  // |a − e| / (|e| + 1e-8)
  double sum_abs_error = 0.0;
  double sum_squared_error = 0.0;
  std::int64_t nan_count = 0;  // of `actual`
  std::int64_t inf_count = 0;

  double mean_abs_error() const;  // 0 if there is no finite pair
  double rms_error() const;
};

// Both tensors must be dense, fp32 and of the same count; otherwise INVALID_ARGUMENT. The result
// does not depend on the number of threads.
absl::StatusOr<AllCloseResult> CompareAllCloseCpu(const TensorView& actual,
                                                  const TensorView& expected, double atol,
                                                  double rtol);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ALLCLOSE_H_
