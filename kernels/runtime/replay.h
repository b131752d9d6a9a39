// Devices that can record what a launch enqueues and do it again without the host: of short
// kernels the host's part takes longer than the device's, and would be what is timed.
#ifndef ASSAY_KERNELS_RUNTIME_REPLAY_H_
#define ASSAY_KERNELS_RUNTIME_REPLAY_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// Valid as long as its device and all that the launch refers to.
class RecordedLaunch {
 public:
  virtual ~RecordedLaunch() = default;
  // Enqueues all of it, as one.
  virtual absl::Status Launch() = 0;
};

// What a Device may be besides.
class LaunchRecorder {
 public:
  virtual ~LaunchRecorder() = default;
  // Calls `launch`; what it enqueues is recorded and not done. UNIMPLEMENTED where it
  // cannot be recorded, which a launch that waits for the device or takes memory cannot.
  virtual absl::StatusOr<std::unique_ptr<RecordedLaunch>> RecordLaunch(
      std::function<absl::Status()> launch) = 0;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_REPLAY_H_
