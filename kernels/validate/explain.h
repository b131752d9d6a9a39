// Fills in what explains an outcome: the inputs' content, where NaN came from, how the
// errors lie, what it reads as, and the elements that were asked for.
#ifndef ASSAY_KERNELS_VALIDATE_EXPLAIN_H_
#define ASSAY_KERNELS_VALIDATE_EXPLAIN_H_

#include <span>

#include "absl/status/status.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/outcome.h"

namespace assay {

// `outcome` holds a plan, a comparison, findings and a verdict. `inputs` are on the
// device as the kernel got them; `request` is the comparison's, of the output that was
// judged. A plain pass costs nothing but its slices. The device's own errors.
absl::Status Explain(const Case& c, const Op& op, Device& device,
                     std::span<const TensorView> inputs, const HostInputs& host,
                     const CompareRequest& request, CaseOutcome& outcome);

}  // namespace assay

#endif  // ASSAY_KERNELS_VALIDATE_EXPLAIN_H_
