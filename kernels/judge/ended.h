// Ended: the end of a case that cannot go on after one of its steps. It has a verdict, and a
// finding that says why.
#ifndef ASSAY_KERNELS_JUDGE_ENDED_H_
#define ASSAY_KERNELS_JUDGE_ENDED_H_

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/judge/finding.h"
#include "kernels/judge/outcome.h"

namespace assay::inline kernels {

struct Ended {
  Verdict verdict = Verdict::kUnspecified;
  Finding finding;
};
// What a step returns. Without a value the case goes on.
using End = std::optional<Ended>;

// The end that a failed step means. A lack of memory is INCONCLUSIVE. A failure of a kernel in
// another process (kernels/runtime/kernel_failure.h) says what it is. Anything else is ERROR.
// `what` names the step or the operand.
Ended EndedBy(const absl::Status& status, std::string_view what);

// The same for a plan, a kernel's construction or a reference. Only these may say that they cannot:
// their UNIMPLEMENTED is UNSUPPORTED. A launch that returns UNIMPLEMENTED has failed.
Ended RefusedBy(const absl::Status& status, std::string_view what);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_ENDED_H_
