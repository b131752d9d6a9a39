// Puts a case into the words of kernels/sdk/assay/kernel.h, for any operator: the problem's fields
// come from its table, and the tensors from the plan.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_DESCRIBE_PROBLEM_H_
#define ASSAY_KERNELS_PROVIDERS_USER_DESCRIBE_PROBLEM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/runner/protocol.h"

namespace assay::inline kernels {

// Fills in everything but judge_pid, thread_count and memory_bytes. Each operand has its guard
// bands around it, and begins at a page. UNIMPLEMENTED if a problem has more fields or operands
// than the description has room for. `reference`: it is described to a reference, which has room
// for magnitudes.
absl::StatusOr<std::unique_ptr<Description>> DescribeProblem(const Case& c, const Plan& plan,
                                                             bool reference = false);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_DESCRIBE_PROBLEM_H_
