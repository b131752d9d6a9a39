// A runner that has loaded a user's library, and the time that it may take. What both a kernel
// under test and a reference of the caller's need.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_LOADED_RUNNER_H_
#define ASSAY_KERNELS_PROVIDERS_USER_LOADED_RUNNER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/providers/user/runner_process.h"
#include "kernels/runner/protocol.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// The case's deadline, a little early: the kernel's process then ends, and not the worker. The
// judge's own work counts towards it, so a kernel may be left with too little of it.
class RunnerDeadline {
 public:
  explicit RunnerDeadline(const Case& c);

  // Asks for a task that should have `fair` seconds. A kernel that had less, and did not return in
  // time, is not to blame: KernelError::kNoTime.
  absl::StatusOr<int> Ask(RunnerProcess& process, RunnerTask task, double fair) const;
  static double Now();  // [s], of the steady clock

 private:
  absl::Status NoTime(double left, RunnerTask task) const;

  double begin_;    // [s], of the steady clock
  double of_case_;  // [s]; 0: there is none
};

// What is fair: a first call of a kernel's, and others in units of the slowest that came before.
inline constexpr double kFairSeconds = 1;
inline constexpr double kFairLaunches = 10;

struct LoadedRunner {
  std::unique_ptr<RunnerProcess> process;
  LoadStatus status = LoadStatus::kOk;  // what came of loading the library
  std::string message;                  // what the library says of it; printable
  std::string name;                     // of the kernel; printable
};

// Checks the description's library, starts a process for it and loads it there. Fills in the
// description's thread_count and memory_bytes. UNIMPLEMENTED if this platform cannot
// contain the process. If the library is no kernel or its process dies, the error carries a
// KernelFailure.
absl::StatusOr<LoadedRunner> LoadRunner(Description& description, Device& device,
                                        const RunnerDeadline& until);

// What the kernel says of its last load or launch; printable. Empty if it says nothing.
std::string SaidBy(const RunnerProcess& process);

// The error of a kernel whose library was loaded with another status than kOk. UNIMPLEMENTED if the
// kernel does not do the case.
absl::Status LoadError(const LoadedRunner& runner);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_LOADED_RUNNER_H_
