// A reference of the caller's own, wherever it runs, with the checks that every such reference has
// to pass.
//
// Compute runs it twice on the same inputs, with the output poisoned in two ways. An element that
// it leaves unwritten, or that differs between the runs, is an error of the reference's, and so is
// a magnitude that is smaller than the value that it belongs to.
#ifndef ASSAY_KERNELS_OPS_CUSTOM_CHECKED_REFERENCE_H_
#define ASSAY_KERNELS_OPS_CUSTOM_CHECKED_REFERENCE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops/own_reference.h"
#include "kernels/runtime/kernel_failure.h"

namespace assay::inline kernels {

class CheckedReference : public OwnReference {
 public:
  absl::StatusOr<bool> Compute(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                               double* value, double* magnitude) final;
  void At(const Plan& plan, const HostInputs& inputs, std::span<const std::int64_t> indices,
          double* value, double* magnitude) final;
  bool gave_magnitudes() const final { return gave_magnitudes_; }
  double largest() const final { return largest_; }
  double ShareWithin(const std::function<double(double)>& allowed) const final;

 protected:
  // What stands before the runs on some inputs.
  virtual absl::Status Prepare(const Case& c, const Plan& plan,
                               std::span<const TensorView> inputs) = 0;
  // The next elements of an input, widened to FP64, in their order.
  virtual void TakeInput(std::size_t input, std::int64_t begin, std::span<const double> values) = 0;
  // One run. `value` and `magnitude` have an element for each element of the output, and hold the
  // poison. What the run does not give must keep it.
  virtual absl::Status Run(std::span<double> value, std::span<double> magnitude) = 0;

  // The failure of a reference: "the reference " and the message.
  static absl::Status Wrong(KernelError error, std::string_view message);
  // An error of the way to the reference, as one of the reference. What the platform or the memory
  // lacks stays.
  static absl::Status OfReference(const absl::Status& status);

 private:
  void TakeInputs(const Plan& plan, std::span<const TensorView> inputs);
  absl::Status RunAndCheck(std::uint64_t poison);
  absl::Status Agrees(const std::vector<double>& value, const std::vector<double>& magnitude,
                      bool gave) const;

  // Of the last Compute.
  std::vector<std::uint64_t> digests_;  // an input
  std::vector<double> value_, magnitude_;
  bool gave_magnitudes_ = false;
  double largest_ = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CUSTOM_CHECKED_REFERENCE_H_
