// The process in which a user's kernel runs, seen from the judge. It starts assay-runner, asks it
// for one thing after the other, and takes the operands back while it is stopped.
//
// Everything that the runner writes may be a lie once the library is loaded; see
// kernels/runner/protocol.h. The destructor ends the process. One thread, which must outlive the
// object: Linux ends the runner with the thread that started it.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_RUNNER_PROCESS_H_
#define ASSAY_KERNELS_PROVIDERS_USER_RUNNER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/runner/protocol.h"

namespace assay::inline kernels {

// The program, beside this one unless SetRunnerPath says otherwise (for tests).
std::string RunnerPath();
void SetRunnerPath(std::string path);

class RunnerProcess {
 public:
  // Starts a runner for the problem. Errors say why the
  // process or its memory cannot be made. RESOURCE_EXHAUSTED if memory is short, else the error
  // carries KernelError::kNotStarted.
  static absl::StatusOr<std::unique_ptr<RunnerProcess>> Start(const Description& description);
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  // Lets a frozen runner go on, asks for one task, and waits until it is done. Returns the status
  // that the runner gave. If the runner ended instead, the error carries the death
  // (kernels/runtime/kernel_failure.h). After `deadline_seconds` it ends the runner, and the error
  // says so. With 0 it waits without a limit.
  absl::StatusOr<int> Ask(RunnerTask task, double deadline_seconds = 0);

  // Stops all threads of the runner until the next Ask. Until then nothing of the runner changes or
  // sees the shared memory. A runner that is frozen already stays so. One that does not stop
  // within 30 s is ended, and the error carries that deadline.
  absl::Status Freeze();

  // The shared memory at an offset.
  char* At(std::uint64_t offset) const { return memory_ + offset; }
  // What the runner said; private copies.
  RunnerAnswer Answer() const;
  // What requests took beyond the tasks themselves [seconds].
  struct Overhead {
    double known = 0;      // until a frozen runner was let go; measured for these requests
    double estimated = 0;  // from then on, by what such requests take
  };
  // Of the requests since the last call.
  Overhead TakeOverhead() { return std::exchange(overhead_, {}); }
  // What a request to a frozen runner costs once it was let go, if nobody slept [seconds].
  double frozen_overhead() const { return costs_.frozen; }

  // The shared libraries that the runner has mapped, by file name, without those of the C and C++
  // languages and the kernel's own. Empty if it cannot be read.
  std::vector<std::string> LoadedLibraries(const std::string& own) const;

 private:
  RunnerProcess() = default;
  absl::Status MakeMemory(const Description& description);
  absl::Status Spawn();
  // What a request costs [seconds]: of a runner that goes on, and of a frozen one that was let go,
  // for which the judge waits without sleeping, and for which it sleeps.
  struct Costs {
    double quick = 0;
    double frozen = 0;
    double slept = 0;
  };
  // Waits until the runner answers, and learns what its requests cost. What one runner has cost
  // counts for some minutes for the next ones, which look themselves whether they cost less.
  absl::Status Calibrate();
  // Of so many requests of a kind; nothing for which the judge sleeps if there are none.
  absl::StatusOr<Costs> MeasureCosts(int quick, int slept);
  // Lets the threads of a frozen runner go on. Returns the seconds until then; 0: it was not
  // frozen.
  double GoOn();
  bool Wait(std::uint32_t number, double deadline_seconds);
  // If the process has ended: how, as an error.
  absl::Status Ended(bool block);
  void Kill();

  SharedHead& head() const { return *reinterpret_cast<SharedHead*>(memory_); }

  int memory_fd_ = -1;
  char* memory_ = nullptr;
  std::uint64_t memory_bytes_ = 0;
  pid_t pid_ = -1;
  absl::Status dead_;
  std::uint32_t asked_ = 0;
  bool loading_ = true;  // no launch has begun
  bool frozen_ = false;
  bool slept_ = false;  // the judge, for the last request, and only the time or the end woke it
  Overhead overhead_;
  Costs costs_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_RUNNER_PROCESS_H_
