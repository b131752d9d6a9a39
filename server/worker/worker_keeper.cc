#include "server/worker/worker_keeper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "assay/worker/v1/worker.pb.h"
#include "kernels/text/cat.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "server/process/process.h"

namespace assay::server {

WorkerKeeper::WorkerKeeper(const SupervisorOptions& options)
    : options_(options),
      pump_(options_.device_id),
      ceilings_(options_.ceilings_file),
      device_(options_.device),
      toll_(options_.deaths),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  device_.set_state(v1::DEVICE_STATE_READY);
  monitor_ = std::thread([this] { Monitor(); });
}

WorkerKeeper::~WorkerKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ending_.Cancel();
  Wake();
  monitor_.join();
  SetWorker(nullptr);
  close(wake_);
}

void WorkerKeeper::SetBusy(bool busy) {
  bool wake = false;
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    busy_ = busy;
    last_used_ = EvenTime();
    if (device_.quarantine_reason().empty()) {
      device_.set_state(busy ? v1::DEVICE_STATE_BUSY : v1::DEVICE_STATE_READY);
    }
    if (busy) return;
    const Duty next = DutyLocked();
    wake = next.watch.get() != awaited_ || next.Due() < awaited_at_;
    news = std::exchange(news_, false);
  }
  if (news) Changed();
  if (wake) Wake();
}

void WorkerKeeper::Wake() { eventfd_write(wake_, 1); }

void WorkerKeeper::Changed() {
  if (options_.on_change) options_.on_change(Describe());
}

absl::Status WorkerKeeper::RefuseBusy() {
  const std::lock_guard lock(mutex_);
  if (!busy_) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat("device ", options_.device_id, " is busy with a case"));
}

v1::Device WorkerKeeper::Describe() {
  const std::lock_guard lock(mutex_);
  return device_;
}

std::string WorkerKeeper::Quarantine() {
  const std::lock_guard lock(mutex_);
  return device_.quarantine_reason();
}

void WorkerKeeper::LiftQuarantine() {
  {
    const std::lock_guard lock(mutex_);
    if (device_.quarantine_reason().empty()) return;
    device_.clear_quarantine_reason();
    device_.set_state(v1::DEVICE_STATE_READY);
    toll_.Forgive();
  }
  Log(LogLevel::kInfo, "device.quarantine_lifted", {{"device", options_.device_id}});
  Changed();
  Wake();
}

absl::Status WorkerKeeper::EnsureWorker(const CancelToken* cancel, std::string_view guest) {
  if (worker_ != nullptr && worker_->Ended()) BuryIdle();
  const bool fresh = guest_.empty() || guest_ == guest;
  guest_ = guest;
  if (worker_ != nullptr) {
    if (fresh) return absl::OkStatus();
    worker_->End();  // before the next one: both would want the device's memory
    SetWorker(nullptr);
    Log(LogLevel::kDebug, "worker.replaced", {{"device", options_.device_id}});
  }
  ProcessOptions process_options;
  process_options.path = options_.worker_path;
  process_options.args = options_.worker_args;
  process_options.args.push_back(Cat("--parent-pid=", getpid()));
  process_options.environment = options_.environment;
  if (options_.containment != nullptr) {
    const std::vector<std::string>& added = options_.containment->environment();
    process_options.environment.insert(process_options.environment.end(), added.begin(),
                                       added.end());
    process_options.containment = options_.containment.get();
  }
  process_options.output_fd = pump_.write_fd();
  absl::StatusOr<std::unique_ptr<WorkerLink>> started = WorkerLink::Start(process_options);
  if (!started.ok()) {
    // The host has no room for a process, or not the program: that says nothing of the device.
    RecordDeath({.finding = MakeFinding(v1::REASON_FAULT, Cat(started.status().message())),
                 .restart_reason = "start",
                 .counts = false});
    return started.status();
  }
  const pid_t pid = (*started)->process().pid();
  SetWorker(*std::move(started));

  worker::v1::DescribeRequest request;
  request.set_kept_ceilings(ceilings_.text());
  worker::v1::DescribeResponse response;
  if (absl::Status status = PlainCall(
          options_.start_deadline, "starting a worker",
          [&](WorkerLink& w, const CallLimits& l) { return w.Describe(l, request, &response); },
          cancel);
      !status.ok()) {
    return status;
  }
  Log(LogLevel::kInfo, "worker.started", {{"device", options_.device_id}, {"pid", pid}});
  return absl::OkStatus();
}

void WorkerKeeper::SetWorker(std::shared_ptr<WorkerLink> worker) {
  if (options_.containment != nullptr) {
    std::function<void(const std::string&)> note;
    if (worker != nullptr) {
      // The page lives as long as the worker. Before the worker goes, nobody is told any more.
      note = [this, &page = worker->process().page()](const std::string& call) {
        if (PhaseOf(page.phase.load()) == v1::PHASE_UNSPECIFIED) return;
        refused_.Add(page.turn.load(), call);
      };
    }
    options_.containment->TellOfRefused(std::move(note));
  }
  std::shared_ptr<WorkerLink> old;
  const std::lock_guard lock(mutex_);
  old = std::exchange(worker_, std::move(worker));
  if (worker_ == nullptr) device_.set_leased_bytes(0);
  news_ = true;
}

CallLimits WorkerKeeper::Limits(absl::Time deadline, const CancelToken* cancel) const {
  return {deadline, cancel, options_.cancel_grace, options_.resident_cap_bytes};
}

absl::Status WorkerKeeper::PlainCall(absl::Duration limit, std::string_view what, Call call,
                                     const CancelToken* cancel) {
  const CallResult result =
      call(*worker_, Limits(EvenTime() + limit, cancel == nullptr ? &ending_ : cancel));
  if (result.end == CallEnd::kAnswered) {
    if (result.status.ok()) return absl::OkStatus();
    return absl::InternalError(Cat(what, ": ", result.status.error_message()));
  }
  Death death = Bury(result.end, limit);
  death.planted = death.planted || !guest_.empty();  // a user's code speaks against no device
  if (!ending_.cancelled()) RecordDeath(death);      // else it dies with the keeper
  return absl::InternalError(Cat(what, ": ", death.finding.message()));
}

void WorkerKeeper::Answered(Lesson learn) {
  const std::lock_guard lock(mutex_);
  toll_.Answered();
  news_ = learn(device_) || news_;
}

void WorkerKeeper::Learn(Lesson learn) {
  const std::lock_guard lock(mutex_);
  news_ = learn(device_) || news_;
}

Death WorkerKeeper::Bury(CallEnd end, absl::Duration limit) {
  Death death = worker_->Bury(end, limit, Limits(absl::InfiniteFuture()), options_.device_id);
  SetWorker(nullptr);
  return death;
}

// Buries a worker that has died between cases. Requires the lock turn().
void WorkerKeeper::BuryIdle() {
  Death death = worker_->BuryIdle();
  death.planted = death.planted || !guest_.empty();
  SetWorker(nullptr);
  RecordDeath(death);
}

void WorkerKeeper::RecordDeath(const Death& death) {
  std::string quarantine;
  int restarts = 0;
  {
    const std::lock_guard lock(mutex_);
    // A planted kernel dies on purpose, which says nothing about the device.
    restarts = device_.worker_restarts() + (death.planted ? 0 : 1);
    device_.set_worker_restarts(restarts);
    quarantine = toll_.Add(death, EvenTime());
    if (!quarantine.empty()) {
      device_.set_quarantine_reason(quarantine);
      device_.set_state(v1::DEVICE_STATE_QUARANTINED);
    }
  }
  std::int64_t missing = 0;
  if (death_log_.Admit(&missing)) {
    Log(LogLevel::kWarn, "worker.died",
        {{"device", options_.device_id},
         {"reason", death.restart_reason},
         {"message", death.finding.message()},
         {"restarts", restarts},
         {"lines_missing", missing}});
  }
  if (!quarantine.empty()) {
    Log(LogLevel::kError, "device.quarantined",
        {{"device", options_.device_id}, {"reason", quarantine}});
  }
  if (options_.on_restart && !death.planted) options_.on_restart(death.restart_reason);
  Changed();
  Wake();
}

absl::Status WorkerKeeper::ReleaseArena() {
  if (worker_ == nullptr) return absl::OkStatus();
  worker::v1::ReleaseArenaResponse response;
  if (absl::Status status = PlainCall(
          absl::Seconds(30), "giving the arena back",
          [&](WorkerLink& w, const CallLimits& l) { return w.ReleaseArena(l, &response); });
      !status.ok()) {
    return status;
  }
  {
    const std::lock_guard lock(mutex_);
    device_.set_leased_bytes(0);
  }
  Log(LogLevel::kDebug, "arena.released",
      {{"device", options_.device_id}, {"bytes", response.released_bytes()}});
  Changed();
  return absl::OkStatus();
}

WorkerKeeper::Duty WorkerKeeper::NextDuty() {
  const std::lock_guard lock(mutex_);
  Duty duty = DutyLocked();
  awaited_ = duty.watch.get();
  awaited_at_ = duty.Due();
  return duty;
}

WorkerKeeper::Duty WorkerKeeper::DutyLocked() {
  Duty duty;
  duty.stop = stopping_;
  if (busy_) return duty;
  duty.watch = worker_;
  if (worker_ == nullptr && device_.quarantine_reason().empty()) duty.start_at = toll_.next_start();
  if (worker_ != nullptr && device_.leased_bytes() > 0 &&
      options_.idle_release > absl::ZeroDuration()) {
    duty.release_at = last_used_ + options_.idle_release;
  }
  return duty;
}

// The monitor thread. Between cases it starts a missing worker, notices the death of a worker, and
// gives the arena of an idle worker back.
void WorkerKeeper::Monitor() {
  for (Duty duty = NextDuty(); !duty.stop; duty = NextDuty()) {
    const absl::Duration left = duty.Due() - EvenTime();
    pollfd fds[2] = {{wake_, POLLIN, 0},
                     {duty.watch ? duty.watch->process().pidfd() : -1, POLLIN, 0}};
    if (left > absl::ZeroDuration()) {
      const absl::Duration slice = std::min(left + absl::Milliseconds(1), absl::Minutes(1));
      poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(slice)));
    }
    eventfd_t ignored = 0;
    if ((fds[0].revents & POLLIN) != 0) eventfd_read(wake_, &ignored);

    duty = NextDuty();
    const absl::Time now = EvenTime();
    const bool ended = (fds[1].revents & POLLIN) != 0 && duty.watch != nullptr;
    if (duty.stop || (!ended && now < duty.Due())) continue;
    // Another thread holds the lock. It is about to use the worker, and takes care of it.
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) {
      std::this_thread::yield();
      continue;
    }
    if (ended && worker_ == duty.watch && worker_->Ended()) {
      BuryIdle();
    } else if (now >= duty.start_at && worker_ == nullptr) {
      EnsureWorker().IgnoreError();  // is logged and counted already
    } else if (now >= duty.release_at && worker_ != nullptr) {
      ReleaseArena().IgnoreError();  // a worker that fails is replaced already
    }
  }
}

}  // namespace assay::server
