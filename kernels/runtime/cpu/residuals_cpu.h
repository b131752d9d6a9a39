// The residual pass on the CPU; kernels/runtime/residuals.h says what it sums up.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_RESIDUALS_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_RESIDUALS_CPU_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/runtime/residuals.h"

namespace assay {

// All pointers are in this process's memory. INVALID_ARGUMENT if r or σ is missing.
absl::StatusOr<ResidualSums> ResidualsCpu(const ResidualRequest& request);

namespace internal {

// Sums of the elements of one row that count.
struct RowResiduals {
  std::int64_t count = 0;
  double sum_squared = 0;        // Σz²
  double largest = 0;            // max |z|
  double weight = 0;             // Σ1/σ²
  double reference = 0;          // Σr/σ²
  double reference_squared = 0;  // Σr²/σ²
  double error = 0;              // Σe/σ²
  double error_reference = 0;    // Σe·r/σ²
  double error_direction = 0;    // Σe·D/σ²
  double direction_squared = 0;  // ΣD²/σ²
};

// One row of a request. Adds z² of each column to `columns`, and 1 to `counts` if the element
// counts; both have `cols` elements.
void SumRow(const ResidualRequest& request, std::int64_t row, double* columns, double* counts,
            RowResiduals* sums);

}  // namespace internal
}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_RESIDUALS_CPU_H_
