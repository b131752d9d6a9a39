// The kernel that is a function of another process: the process of the caller who asked for the
// validation.
//
// ExternalKernel carries the operands there and back, by an Elsewhere. Whoever runs the case
// implements the Elsewhere and sets Case::elsewhere. The case goes through validation as any other:
// fill, poison, repeats, probes. The daemon's guards see nothing of the other process: it may guard
// its own copies of the operands, and then fails the launch (KernelError::kWroteOutside). If the
// function makes its own output, an element that it never wrote cannot be seen.
//
// What a launch does:
//   Bring    sends the inputs that have changed since the other process got them
//   Launch   has the function run, and puts what comes back into the operands: the output, and the
//            inputs that the function changed
// The other process may also compute the reference of an operator of the caller's own, on the same
// inputs (external_reference.h).
//
// One thread. Launches are not to be timed: their time is mostly the time that messages take.
#ifndef ASSAY_KERNELS_PROVIDERS_EXTERNAL_EXTERNAL_H_
#define ASSAY_KERNELS_PROVIDERS_EXTERNAL_EXTERNAL_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// The way to the other process. Inputs have the numbers from 0 on, the output has the next one. A
// tensor's bytes are its logical elements in their order, without padding.
class Elsewhere {
 public:
  // What comes back of a launch: bytes of a tensor, or the launch's end.
  struct Piece {
    bool end = false;
    int tensor = 0;
    std::string_view bytes;  // valid until the next Await
  };

  virtual ~Elsewhere() = default;

  // Says what the next launches compute. The other process has no inputs then.
  absl::Status BeginKernel(const Case& c, const Plan& plan);
  // Sends the inputs that the other process does not have as they are here.
  absl::Status Bring(std::span<const TensorView> inputs, Device& device);

  // Asks for a launch. `poison` has the bits of one element of the poisoned output.
  virtual absl::Status Launch(std::uint64_t poison) = 0;
  // Asks for a run of the caller's reference on the inputs that were brought. Its result comes back
  // in FP64, as a tensor with the number after the output's. The magnitudes of its terms may
  // follow, with the next number.
  virtual absl::Status LaunchReference() = 0;
  // Waits for what comes back. A launch that failed gives a failure
  // (kernels/runtime/kernel_failure.h).
  virtual absl::StatusOr<Piece> Await() = 0;

 private:
  virtual absl::Status Describe(const Case& c, const Plan& plan) = 0;
  // Sends the next bytes of an input, at least 1 and at most kMostExternalBytes
  // (kernels/ops/case.h).
  virtual absl::Status Send(int tensor, std::string_view bytes) = 0;
  absl::Status SendWhole(int tensor, const TensorView& view, Device& device);

  std::vector<std::optional<TensorDigest>> sent_;  // of the inputs, as the other process has them
  std::vector<double> stage_;                      // doubles for their alignment
};

// The kernel of an operator on a backend, for cases whose `elsewhere` is set. The kernel takes
// every format.
KernelEntry ExternalEntry(std::string_view op, std::string_view backend);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_EXTERNAL_EXTERNAL_H_
