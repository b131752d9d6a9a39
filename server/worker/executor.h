// What the job queue needs of a device: run one case to a result, whatever
// happens to the process that runs it.
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
#include "server/worker/cases_ahead.h"
#include "server/worker/piece_source.h"
#include "server/worker/profiler.h"
#include "server/worker/profiler_output.h"

namespace assay {

// Set once, by any thread; a running case is then ended by killing its worker
// after a short grace. Executors poll it at least every 20 ms or are woken.
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

  // "cpu:0".
  virtual const std::string& device_id() const = 0;

  // Blocks until the case has a result; called by one thread at a time. `limit` is
  // how long a worker may take, from when it begins: waiting for the device or for a
  // worker to start is not part of it, and is ended by `cancel`. A worker that
  // crashes, exceeds `limit` or runs out of memory gives ERROR with findings crash, timeout, fault
  // or memory that name the phase; a cancelled case gives SKIPPED with finding cancelled; a
  // quarantined device gives ERROR with finding fault. start_time, duration, index are set.
  virtual v1::CaseResult Execute(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                 const CancelToken& cancel) = 0;

  // Whether small cases that follow one another are worth running beside one another.
  virtual bool SharesLaunches() const { return false; }
  // The same, of a case beside which some that follow may run: their results are then in
  // `ahead`, where they passed. What was found of any, or took the worker with it, is held
  // against what it is alone.
  virtual v1::CaseResult ExecuteLeading(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                        const CancelToken& cancel, CasesAhead& /*ahead*/) {
    return Execute(spec, index, limit, cancel);
  }

  // Compares tensors that come in pieces, the header's own not among them. Blocks, any
  // thread: the device is taken for one thing at a time, in the order in which they are
  // asked for. `limit` is how long a worker may take once all pieces have come. What
  // ends a case with ERROR gives such a result here, too. Errors: INVALID_ARGUMENT where
  // the pieces are not what the header says; RESOURCE_EXHAUSTED and UNIMPLEMENTED as the
  // device has them; DEADLINE_EXCEEDED where no piece comes for long; CANCELLED.
  virtual absl::StatusOr<v1::CaseResult> Compare(const v1::CompareHeader& /*header*/,
                                                 PieceSource& /*pieces*/, absl::Duration /*limit*/,
                                                 const CancelToken& /*cancel*/) {
    return absl::UnimplementedError("this device compares no tensors");
  }

  // Runs the case once more under a profiler while it holds the device, whose arena is
  // given back first. Blocks; as Compare it takes its turn, and `limit` and `cancel` mean
  // the same. What was not possible is in the note: never an error, never a verdict.
  virtual Profile ProfileCase(Profiler /*profiler*/, const v1::CaseSpec& /*spec*/,
                              absl::Duration /*limit*/, const CancelToken& /*cancel*/) {
    return {.counters = {}, .note = "this device is not profiled"};
  }

  // Snapshot for ListDevices; any thread.
  virtual v1::Device Describe() = 0;

  // Kernels of the device's backend, planted ones too; any thread.
  virtual std::vector<v1::Kernel> Kernels() = 0;

  // Gives the arena back, as an operator asks for: a quarantine is lifted, too.
  // FAILED_PRECONDITION while a case runs.
  virtual absl::Status Release() = 0;

  // Gives the arena back and changes nothing else. FAILED_PRECONDITION while a case runs.
  virtual absl::Status GiveBack() = 0;

  // Measures the ceilings if they have not been. FAILED_PRECONDITION while a
  // case runs.
  virtual absl::Status MeasureCeilings() = 0;
};

// The devices of this daemon, in the order of --devices, and the backends that
// could not be loaded (state UNAVAILABLE, no executor).
struct DeviceSet {
  std::vector<std::unique_ptr<CaseExecutor>> executors;
  std::vector<v1::Device> unavailable;

  // The executors a selector names: an id, a glob ("cuda:*", "*"), or empty for
  // the first. Empty result where none matches.
  std::vector<CaseExecutor*> Select(std::string_view selector) const;
  // One that the selector means and that cannot be used here; nullptr where there is none.
  const v1::Device* Unusable(std::string_view selector) const;
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_EXECUTOR_H_
