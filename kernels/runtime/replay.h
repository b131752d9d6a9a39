// Lets a device record the work that a launch enqueues and repeat it without the host. For short
// kernels the host's part of a launch takes longer than the device's part, and a timing would
// measure the host.
#ifndef ASSAY_KERNELS_RUNTIME_REPLAY_H_
#define ASSAY_KERNELS_RUNTIME_REPLAY_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::inline kernels {

// A recorded launch. It is valid as long as its device and everything that the launch refers to.
class RecordedLaunch {
 public:
  virtual ~RecordedLaunch() = default;
  // Enqueues all recorded work at once.
  virtual absl::Status Launch() = 0;
};

// An interface that a Device may implement, too.
class LaunchRecorder {
 public:
  virtual ~LaunchRecorder() = default;
  // Calls `launch` and records the work that it enqueues, without doing it. UNIMPLEMENTED if it
  // cannot be recorded: a launch must not wait for the device or take memory.
  virtual absl::StatusOr<std::unique_ptr<RecordedLaunch>> RecordLaunch(
      std::function<absl::Status()> launch) = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_REPLAY_H_
