// A kernel from a library of a user's, as kernels/sdk/assay/kernel.h describes it. Runs in
// assay-runner alone. One thread.
#ifndef ASSAY_KERNELS_RUNNER_LIBRARY_KERNEL_H_
#define ASSAY_KERNELS_RUNNER_LIBRARY_KERNEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runner/problem_view.h"
#include "kernels/runner/protocol.h"
#include "kernels/sdk/assay/kernel.h"

namespace assay::inline kernels {

class LibraryKernel {
 public:
  // `description` is a private copy, and `memory` is where the shared memory's operands are mapped,
  // from kOperandsOffset on. Both outlive the kernel.
  LibraryKernel(const Description& description, char* memory)
      : description_(description), memory_(memory), view_(description) {}

  // Loads the library and prepares the kernel. Fills in the answer's name and message.
  LoadStatus Load(RunnerAnswer& answer);
  // Returns what the kernel's launch returns, or ASSAY_OUT_OF_BOUNDS if one of the first launches
  // wrote around its workspace. Fills in the answer's message if the launch failed.
  // Requires that Load was fine.
  int Launch(RunnerAnswer& answer);
  // Fills the workspace with workspace_byte, as Load did.
  void FillWorkspace();
  void Destroy();

 private:
  LoadStatus Open(RunnerAnswer& answer);
  LoadStatus Prepare(RunnerAnswer& answer);
  void DescribeLaunch();
  bool LeavesBandsAlone() const;
  void* At(const SharedTensor& tensor) const { return memory_ + (tensor.offset - kOperandsOffset); }

  const Description& description_;
  char* const memory_;
  const ProblemView view_;
  const assay_kernel* kernel_ = nullptr;
  void* state_ = nullptr;
  std::array<const void*, kMaxInputs> input_data_{};
  assay_launch launch_{};
  // Launches after which the bytes around the workspace are looked at. Later ones are timed, and
  // that would take longer than some kernels.
  int watched_left_ = 8;
  char message_[kMessageBytes] = {};
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNNER_LIBRARY_KERNEL_H_
