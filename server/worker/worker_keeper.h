// The life of a device's worker: started before the first case, replaced when it dies (at
// once where a case waits; else after a back-off that grows from 0 to 30 s), its arena given
// back when it is idle, killed with the keeper. Workers that keep dying quarantine the device;
// planted kernels, which die on purpose, never count towards that.
//
// Whoever uses the worker holds the turn, and is Busy meanwhile: then the keeper's own thread
// leaves it alone.
//
// Thread-safety: thread-safe; what requires the turn says so. The callbacks of the options
// are called by any thread, never with a lock held that Describe needs.
#ifndef ASSAY_SERVER_WORKER_WORKER_KEEPER_H_
#define ASSAY_SERVER_WORKER_WORKER_KEEPER_H_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "assay/v1/device.pb.h"
#include "server/base/log.h"
#include "server/worker/death_toll.h"
#include "server/worker/output_pump.h"
#include "server/worker/supervisor_options.h"
#include "server/worker/turn_lock.h"
#include "server/worker/worker_link.h"

namespace assay {

class WorkerKeeper {
 public:
  explicit WorkerKeeper(const SupervisorOptions& options);
  ~WorkerKeeper();
  WorkerKeeper(const WorkerKeeper&) = delete;
  WorkerKeeper& operator=(const WorkerKeeper&) = delete;

  // Whose turn it is to use the worker.
  TurnLock& turn() { return turn_; }

  // While it lives the device is BUSY. Requires the turn.
  class Busy {
   public:
    explicit Busy(WorkerKeeper& keeper) : keeper_(keeper) { keeper_.SetBusy(true); }
    ~Busy() { keeper_.SetBusy(false); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    WorkerKeeper& keeper_;
  };
  // FAILED_PRECONDITION while somebody is.
  absl::Status RefuseBusy();

  v1::Device Describe();
  std::string Quarantine();  // why; empty: the device is not quarantined
  void LiftQuarantine();

  // Requires the turn, as do all that follow. A worker that answers, started where there is
  // none; a start that is cancelled is an error. `cancel` may be null.
  absl::Status EnsureWorker(const CancelToken* cancel = nullptr);
  WorkerLink& worker() { return *worker_; }

  CallLimits Limits(absl::Time deadline, const CancelToken* cancel = nullptr) const;

  // A call outside of cases: `call` takes the worker and the limits. A worker that did not
  // answer is buried, and the death recorded.
  using Call = absl::FunctionRef<CallResult(WorkerLink&, const CallLimits&)>;
  absl::Status PlainCall(absl::Duration limit, std::string_view what, Call call,
                         const CancelToken* cancel = nullptr);

  // The worker answered a case; `learn` adds what it told of the device, with a lock held.
  void Answered(absl::FunctionRef<void(v1::Device&)> learn);
  // What a call outside of cases told.
  void Learn(absl::FunctionRef<void(v1::Device&)> learn);

  // Buries the worker after a call that was not answered. The death is then to be recorded,
  // once it is known whether it counts.
  Death Bury(CallEnd end, absl::Duration limit);
  void RecordDeath(const Death& death);

  absl::Status ReleaseArena();

 private:
  // What the monitor has to do next, and when.
  struct Duty {
    bool stop = false;
    std::shared_ptr<WorkerLink> watch;  // whose end matters now
    absl::Time start_at = absl::InfiniteFuture();
    absl::Time release_at = absl::InfiniteFuture();
  };

  void SetBusy(bool busy);
  void SetWorker(std::shared_ptr<WorkerLink> worker);
  void BuryIdle();
  void Wake();
  void Changed();
  Duty NextDuty();
  void Monitor();

  const SupervisorOptions options_;
  OutputPump pump_;
  LogRateLimit death_log_{1, 10};

  TurnLock turn_;     // held by whoever drives the worker
  std::mutex mutex_;  // guards what follows
  v1::Device device_;
  std::shared_ptr<WorkerLink> worker_;  // swapped under mutex_, used by the holder of the turn
  bool busy_ = false;
  bool stopping_ = false;
  DeathToll toll_;
  absl::Time last_used_ = absl::Now();

  const int wake_;
  std::thread monitor_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_WORKER_KEEPER_H_
