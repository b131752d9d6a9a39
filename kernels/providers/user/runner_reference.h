// The reference of the caller's, run: a library that a process of its own loads, as a kernel under
// test. It gets the inputs widened to FP64, and gives FP64.
//
// It runs only while the kernel under test is stopped, and is stopped itself from one run to the
// next. Each Compute runs it twice on the same inputs, with the output poisoned in two ways. An
// element that it leaves unwritten, or that differs between the runs, is an error of the
// reference's, and so is a magnitude that is smaller than the value that it belongs to.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_RUNNER_REFERENCE_H_
#define ASSAY_KERNELS_PROVIDERS_USER_RUNNER_REFERENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/ops/own_reference.h"
#include "kernels/providers/user/loaded_runner.h"
#include "kernels/runner/protocol.h"
#include "kernels/runtime/device.h"

namespace assay {

class RunnerReference final : public OwnReference {
 public:
  // `library` is a path on this machine. The process starts with the first Compute. `device` must
  // outlive the object.
  RunnerReference(std::string library, Device& device)
      : library_(std::move(library)), device_(device) {}

  absl::StatusOr<bool> Compute(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                               double* value, double* magnitude) override;
  void At(const Plan& plan, const HostInputs& inputs, std::span<const std::int64_t> indices,
          double* value, double* magnitude) override;
  bool gave_magnitudes() const override { return gave_magnitudes_; }
  double largest() const override { return largest_; }

 private:
  absl::Status Start(const Case& c, const Plan& plan);
  absl::Status TakeInputs(const Plan& plan, std::span<const TensorView> inputs);
  // One run. Afterwards the process is stopped, and `value` and `magnitude` are its results.
  absl::Status Run(std::uint64_t poison, std::vector<double>* value,
                   std::vector<double>* magnitude);
  absl::Status Check(std::uint64_t poison);
  double* ValuesInRunner() const;
  double* MagnitudesInRunner() const;

  const std::string library_;
  Device& device_;
  std::unique_ptr<Description> description_;
  LoadedRunner runner_;
  std::optional<RunnerDeadline> until_;
  double slowest_ = 0;     // run so far [s]
  std::size_t count_ = 0;  // of the output
  // Of the last Compute.
  std::vector<std::uint64_t> digests_;  // an input
  std::vector<double> value_, magnitude_;
  bool gave_magnitudes_ = false;
  double largest_ = 0;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_USER_RUNNER_REFERENCE_H_
