// Keeps a device's worker. It starts the worker before the first case and replaces it when it dies.
// If a case waits, the new worker starts at once, else after a back-off that grows from 0 to 30 s.
// It gives the arena back when the worker is idle, and kills the worker with the keeper. If workers
// keep dying, the device is quarantined. Deaths that say nothing of the device do not count
// (death_toll.h).
//
// A thread that uses the worker holds the lock turn() and is Busy meanwhile. The keeper's own
// thread then leaves the worker alone.
//
// Thread-safe. A function that requires the lock turn() says so. Any thread may call the callbacks
// of the options, but never with a lock held that Describe needs.
#ifndef ASSAY_SERVER_WORKER_WORKER_KEEPER_H_
#define ASSAY_SERVER_WORKER_WORKER_KEEPER_H_

#include <algorithm>
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
#include "server/base/even_time.h"
#include "server/base/log.h"
#include "server/process/output_pump.h"
#include "server/worker/ceilings_file.h"
#include "server/worker/death_toll.h"
#include "server/worker/refused_calls.h"
#include "server/worker/supervisor_options.h"
#include "server/worker/turn_lock.h"
#include "server/worker/worker_link.h"

namespace assay::server {

class WorkerKeeper {
 public:
  explicit WorkerKeeper(const SupervisorOptions& options);
  ~WorkerKeeper();
  WorkerKeeper(const WorkerKeeper&) = delete;
  WorkerKeeper& operator=(const WorkerKeeper&) = delete;

  // The lock of the worker. Threads get it in the order in which they ask.
  TurnLock& turn() { return turn_; }

  // While this object lives, the device is BUSY. Requires the lock turn().
  class Busy {
   public:
    explicit Busy(WorkerKeeper& keeper) : keeper_(keeper) { keeper_.SetBusy(true); }
    ~Busy() { keeper_.SetBusy(false); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    WorkerKeeper& keeper_;
  };
  // FAILED_PRECONDITION while the device is BUSY.
  absl::Status RefuseBusy();

  v1::Device Describe();
  // Why the device is quarantined. Empty if it is not.
  std::string Quarantine();
  void LiftQuarantine();

  // All functions below require the lock turn().

  // Makes sure that there is a worker that answers, and starts one if there is none. A cancelled
  // start is an error. `cancel` may be null. `guest` is a user's kernel whose device code the
  // worker is about to run in its own context of the device, where it could change whatever lies
  // there. A worker that has run one is replaced before it does anything else.
  absl::Status EnsureWorker(const CancelToken* cancel = nullptr, std::string_view guest = "");
  WorkerLink& worker() { return *worker_; }

  CallLimits Limits(absl::Time deadline, const CancelToken* cancel = nullptr) const;

  // Makes a call that is no case. `call` gets the worker and the limits. If the worker does not
  // answer, it is buried and its death recorded. `cancel` may be null: then the call ends with the
  // keeper.
  using Call = absl::FunctionRef<CallResult(WorkerLink&, const CallLimits&)>;
  absl::Status PlainCall(absl::Duration limit, std::string_view what, Call call,
                         const CancelToken* cancel = nullptr);

  // Adds what the worker told of the device, and returns whether that is news. Called with a lock
  // held.
  using Lesson = absl::FunctionRef<bool(v1::Device&)>;
  // Notes that the worker answered a case.
  void Answered(Lesson learn);
  // Adds what a call that is no case told of the device.
  void Learn(Lesson learn);

  // Keeps the ceilings that a worker sent for the next worker.
  void KeepCeilings(const std::string& text) { ceilings_.Keep(text); }
  // The calls that the worker was refused since the last call of this function.
  RefusedCalls::Taken TakeRefused() { return refused_.Take(); }

  // Buries the worker after a call that was not answered. The caller records the death when it
  // knows whether the death counts.
  Death Bury(CallEnd end, absl::Duration limit);
  void RecordDeath(const Death& death);

  absl::Status ReleaseArena();

 private:
  // The next duty of the monitor, and its time.
  struct Duty {
    bool stop = false;
    std::shared_ptr<WorkerLink> watch;  // the worker whose end matters now
    absl::Time start_at = absl::InfiniteFuture();
    absl::Time release_at = absl::InfiniteFuture();

    absl::Time Due() const { return std::min(start_at, release_at); }
  };

  void SetBusy(bool busy);
  void SetWorker(std::shared_ptr<WorkerLink> worker);
  void BuryIdle();
  void Wake();
  void Changed();
  // For the monitor alone: it waits for this duty now.
  Duty NextDuty();
  Duty DutyLocked();
  void Monitor();

  const SupervisorOptions options_;
  OutputPump pump_;
  LogRateLimit death_log_{1, 10};

  RefusedCalls refused_;

  CancelToken ending_;  // set when the keeper ends
  TurnLock turn_;       // held by the thread that uses the worker
  CeilingsFile ceilings_;
  std::mutex mutex_;  // guards what follows
  v1::Device device_;
  std::shared_ptr<WorkerLink> worker_;  // set under mutex_, used by the holder of turn_
  bool busy_ = false;
  bool news_ = false;  // on_change is to be told once the device is BUSY no more
  bool stopping_ = false;
  DeathToll toll_;
  absl::Time last_used_ = EvenTime();
  // What the monitor waits for. A case whose end brings nothing earlier does not wake it. The
  // monitor holds the worker, so no other worker can have its address.
  const WorkerLink* awaited_ = nullptr;
  absl::Time awaited_at_ = absl::InfiniteFuture();

  std::string guest_;  // turn_; the user's kernel that this worker has run on the device

  const int wake_;
  std::thread monitor_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_WORKER_KEEPER_H_
