// Measures how exactly a kernel computed: runs the residual pass on the device, samples elements
// for the matched filter, and lets precision.h judge.
//
// Nothing is told if the operator has no model for the case, if the device has no residual pass, or
// if its references do not fill the deviations.
#ifndef ASSAY_KERNELS_JUDGE_PRECISION_EVIDENCE_H_
#define ASSAY_KERNELS_JUDGE_PRECISION_EVIDENCE_H_

#include "absl/status/statusor.h"
#include "kernels/judge/precision.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Takes the buffers that the operator's model asks for from the device's arena. `to` is unchanged
// if nothing will be told. RESOURCE_EXHAUSTED without room for all of them; none is taken then.
// Call it after everything else of the case is allocated.
absl::Status AllocateDeviations(const Case& c, const ResidualModel& model, const Plan& plan,
                                Device& device, ReferenceBuffers& to);

// A judged output. All must outlive the call.
struct PrecisionSubject {
  const Case& c;
  const Op& op;
  const Plan& plan;
  Device& device;
  const TensorView& output;
  const ReferenceBuffers& reference;  // filled for this output
  const HostInputs& inputs;
  bool received = false;  // a user sent the tensors
};

// The device's own errors.
absl::StatusOr<PrecisionReading> TellPrecision(const PrecisionSubject& subject);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_PRECISION_EVIDENCE_H_
