// The reference of the caller's, run: a library that a process of its own loads, as a kernel under
// test. It gets the inputs widened to FP64, and gives FP64.
//
// It runs only while the kernel under test is stopped, and is stopped itself from one run to the
// next. What every reference is held to stands in kernels/ops/custom/checked_reference.h.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_RUNNER_REFERENCE_H_
#define ASSAY_KERNELS_PROVIDERS_USER_RUNNER_REFERENCE_H_

#include <memory>
#include <optional>
#include <string>

#include "kernels/ops/custom/checked_reference.h"
#include "kernels/providers/user/loaded_runner.h"
#include "kernels/runner/protocol.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

class RunnerReference final : public CheckedReference {
 public:
  // `library` is a path on this machine. The process starts with the first Compute. `device` must
  // outlive the object.
  RunnerReference(std::string library, Device& device)
      : library_(std::move(library)), device_(device) {}

 private:
  absl::Status Prepare(const Case& c, const Plan& plan,
                       std::span<const TensorView> inputs) override;
  void TakeInput(std::size_t input, std::int64_t begin, std::span<const double> values) override;
  // Afterwards the process is stopped.
  absl::Status Run(std::span<double> value, std::span<double> magnitude) override;

  absl::Status Start(const Case& c, const Plan& plan);
  double* ValuesInRunner() const;
  double* MagnitudesInRunner() const;

  const std::string library_;
  Device& device_;
  std::unique_ptr<Description> description_;
  LoadedRunner runner_;
  std::optional<RunnerDeadline> until_;
  double slowest_ = 0;  // run so far [s]
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_RUNNER_REFERENCE_H_
