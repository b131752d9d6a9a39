// The residual pass on the CPU; kernels/runtime/residuals.h says what it sums up.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_RESIDUALS_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_RESIDUALS_CPU_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/runtime/residuals.h"
#include "kernels/runtime/residuals_rule.h"

namespace assay::inline kernels {

// All pointers are in this process's memory. INVALID_ARGUMENT if r or σ is missing.
absl::StatusOr<ResidualSums> ResidualsCpu(const ResidualRequest& request);

namespace internal {

// One row of a request. Adds z² of each column to `columns`, and 1 to `missed` if the element does
// not count; both have `cols` elements.
void SumRow(const ResidualRequest& request, std::int64_t row, double* columns, double* missed,
            RowResiduals* sums);

}  // namespace internal
}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_RESIDUALS_CPU_H_
