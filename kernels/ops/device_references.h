// DeviceReferences: the references of the operators on a device that has memory of its own. If
// Device::references() is not nullptr, Op::Reference and Op::CheckIdentities hand their calls on to
// it. Inputs, output and buffers are then in device memory. Value and allowance are as Op says.
//
// Errors: UNIMPLEMENTED if this backend has no reference of the operator.
#ifndef ASSAY_KERNELS_OPS_DEVICE_REFERENCES_H_
#define ASSAY_KERNELS_OPS_DEVICE_REFERENCES_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

class DeviceReferences {
 public:
  virtual ~DeviceReferences() = default;

  // Enqueues the reference of the case's operator; max_abs_score, where the operator
  // has one, is set when it returns.
  virtual absl::Status Reference(const Case& c, const Plan& plan, Device& device,
                                 std::span<const TensorView> inputs,
                                 ReferenceBuffers& out) const = 0;

  // Whether Reference fills what the operator's ResidualModel says of this case.
  virtual bool FillsDeviations(const Case& /*c*/) const { return false; }

  // Whether it fills the direction as well, of a case whose deviations it fills.
  virtual bool FillsDirection(const Case& /*c*/) const { return true; }

  // The identities of the case's operator on its judged output.
  virtual absl::StatusOr<std::vector<Identity>> CheckIdentities(
      const Case& c, const Plan& plan, Device& device, std::span<const TensorView> inputs,
      const TensorView& output, const ReferenceBuffers& reference) const = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DEVICE_REFERENCES_H_
