// The reference of an operator of the caller's own, computed in the caller's process, where the
// function under test runs, too.
#ifndef ASSAY_KERNELS_PROVIDERS_EXTERNAL_EXTERNAL_REFERENCE_H_
#define ASSAY_KERNELS_PROVIDERS_EXTERNAL_EXTERNAL_REFERENCE_H_

#include "kernels/ops/custom/checked_reference.h"
#include "kernels/providers/external/external.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// It runs after the kernel of the same case was made, and before another is.
class ExternalReference final : public CheckedReference {
 public:
  // Both must outlive the object.
  ExternalReference(Elsewhere& elsewhere, Device& device)
      : elsewhere_(elsewhere), device_(device) {}

 private:
  absl::Status Prepare(const Case& c, const Plan& plan,
                       std::span<const TensorView> inputs) override;
  void TakeInput(std::size_t, std::int64_t, std::span<const double>) override {}
  absl::Status Run(std::span<double> value, std::span<double> magnitude) override;

  Elsewhere& elsewhere_;
  Device& device_;
  int first_ = 0;  // the number of the tensor that holds the reference
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_EXTERNAL_EXTERNAL_REFERENCE_H_
