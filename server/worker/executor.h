// The interface between the job queue and a device. It runs one case to a result, whatever happens
// to the process that runs it.
#ifndef ASSAY_SERVER_WORKER_EXECUTOR_H_
#define ASSAY_SERVER_WORKER_EXECUTOR_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/v1/case.pb.h"
#include "assay/v1/compare.pb.h"
#include "assay/v1/device.pb.h"
#include "server/worker/caller_link.h"
#include "server/worker/cases_ahead.h"
#include "server/worker/piece_source.h"
#include "server/worker/profiler.h"
#include "server/worker/profiler_output.h"

namespace assay::server {

// Tells a running case to end. Any thread sets it, once. The worker of the case is then killed
// after a short grace. Executors look at the token at least every 20 ms.
class CancelToken {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> cancelled_{false};
};

class CaseExecutor {
 public:
  virtual ~CaseExecutor() = default;

  // The id of the device, such as "cpu:0".
  virtual const std::string& device_id() const = 0;

  // Runs a case and blocks until it has a result. One thread at a time calls it. `limit` is how
  // long the worker may take, counted from when it begins the case. Waiting for the device or for a
  // worker is not part of it, and `cancel` ends that waiting. If the worker crashes, exceeds
  // `limit` or runs out of memory, the result is ERROR, with a finding crash, timeout, fault or
  // memory that names the phase. A cancelled case is SKIPPED, with the finding cancelled. On a
  // quarantined device the result is ERROR, with the finding fault. start_time, duration and index
  // are set.
  virtual v1::CaseResult Execute(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                 const CancelToken& cancel) = 0;

  // Whether small cases that follow one another are worth running together.
  virtual bool SharesLaunches() const { return false; }
  // Runs a case as Execute does. Some of the cases that follow may run together with it. If they
  // pass, their results are in `ahead`. A case that does not pass, or that ended the worker, runs
  // again alone, and that result counts.
  virtual v1::CaseResult ExecuteLeading(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                        const CancelToken& cancel, CasesAhead& /*ahead*/) {
    return Execute(spec, index, limit, cancel);
  }

  // Runs a case whose kernel is a function of the caller's process, as Execute runs others. If the
  // caller is too slow or has gone, the result says so, and blames the caller.
  virtual v1::CaseResult ExecuteElsewhere(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                          const CancelToken& cancel, CallerLink& /*caller*/) {
    return Execute(spec, index, limit, cancel);
  }

  // Compares tensors that come in pieces. `pieces` begins after the header. Any thread may call it,
  // and it blocks: callers get the device one by one, in the order of their calls. `limit` is how
  // long the worker may take after the last piece. A crash and the like give a result with ERROR,
  // as for a case. Errors: INVALID_ARGUMENT if the pieces are not what the header says;
  // RESOURCE_EXHAUSTED and UNIMPLEMENTED from the device; DEADLINE_EXCEEDED if no piece comes for
  // long; CANCELLED.
  virtual absl::StatusOr<v1::CaseResult> Compare(const v1::CompareHeader& /*header*/,
                                                 PieceSource& /*pieces*/, absl::Duration /*limit*/,
                                                 const CancelToken& /*cancel*/) {
    return absl::UnimplementedError("this device compares no tensors");
  }

  // Runs the case once more under a profiler. It gives the arena back first and holds the device
  // meanwhile. It blocks and waits for the device as Compare does, and `limit` and `cancel` mean
  // the same. It never fails and gives no verdict: the note says what was not possible.
  virtual Profile ProfileCase(Profiler /*profiler*/, const v1::CaseSpec& /*spec*/,
                              absl::Duration /*limit*/, const CancelToken& /*cancel*/) {
    return {.counters = {}, .note = "this device is not profiled"};
  }

  // A snapshot for ListDevices. Any thread may call it.
  virtual v1::Device Describe() = 0;

  // The kernels of the device's backend, planted kernels too. They are the same as long as the
  // executor lives. Any thread may call it.
  virtual const std::vector<v1::Kernel>& Kernels() const = 0;

  // Gives the arena back and ends a quarantine, because a user asks for it. FAILED_PRECONDITION
  // while a case runs.
  virtual absl::Status Release() = 0;

  // Gives the arena back and changes nothing else. FAILED_PRECONDITION while a case runs.
  virtual absl::Status GiveBack() = 0;

  // Measures the ceilings that are not known or in doubt. `cancel` ends it as it ends a case.
  // FAILED_PRECONDITION while a case runs, CANCELLED.
  virtual absl::Status MeasureCeilings(const CancelToken& cancel) = 0;
};

// The devices of this daemon, in the order of --devices. A device or a backend that cannot be used
// has no executor and the state UNAVAILABLE.
struct DeviceSet {
  std::vector<std::unique_ptr<CaseExecutor>> executors;
  std::vector<v1::Device> unavailable;

  // The executors that a selector names: an id, a glob ("cuda:*", "*"), or empty for the first. The
  // result is empty if none matches.
  std::vector<CaseExecutor*> Select(std::string_view selector) const;
  // A device that the selector names and that cannot be used here. nullptr if there is none.
  const v1::Device* Unusable(std::string_view selector) const;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_EXECUTOR_H_
