// Explains an outcome in two steps. Examine looks at the tensors while they are on the device.
// AddDiagnosis names the likely cause when the results of the exact cases are there, too.
#ifndef ASSAY_KERNELS_DIAGNOSE_EXPLAIN_H_
#define ASSAY_KERNELS_DIAGNOSE_EXPLAIN_H_

#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/diagnose/anatomy.h"
#include "kernels/diagnose/suspects.h"
#include "kernels/judge/outcome.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// What was found out about wrong elements; empty where there are none.
struct Examination {
  std::optional<Anatomy> anatomy;
  std::optional<Conviction> conviction;
};

// Fills in the inputs' content, where NaN came from, and how the errors lie. `outcome` holds a
// plan, a comparison, findings and a verdict; `inputs` are on the device as the kernel got them;
// `request` is the comparison's, of the output that was judged, without a reference where there was
// none. A plain pass costs nothing. The device's own errors.
absl::StatusOr<Examination> Examine(const Case& c, const Op& op, Device& device,
                                    std::span<const TensorView> inputs, const HostInputs& host,
                                    const CompareRequest& request, CaseOutcome& outcome);

// Fills in reads_as and next_step of an outcome that is whole otherwise. `received`: the
// output is a user's, and nothing was launched.
void AddDiagnosis(const Case& c, const Examination& examination, bool received,
                  CaseOutcome& outcome);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_DIAGNOSE_EXPLAIN_H_
