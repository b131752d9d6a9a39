#include "server/worker/supervisor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "assay/worker/v1/worker.pb.h"
#include "kernels/numerics/cat.h"
#include "server/base/case_spec.h"
#include "server/base/compare_header.h"
#include "server/base/log.h"
#include "server/base/roofs.h"
#include "server/base/wire.h"
#include "server/worker/death_toll.h"
#include "server/worker/output_pump.h"
#include "server/worker/process.h"
#include "server/worker/profile_run.h"
#include "server/worker/turn_lock.h"
#include "server/worker/worker_link.h"

namespace assay {
namespace {

// A client that sends no piece of its tensors for so long does not get to keep the device.
constexpr absl::Duration kIdleClient = absl::Seconds(30);

class Supervisor final : public CaseExecutor {
 public:
  explicit Supervisor(SupervisorOptions options)
      : options_(std::move(options)),
        pump_(options_.device_id),
        device_(options_.device),
        toll_(options_.deaths),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    device_.set_state(v1::DEVICE_STATE_READY);
    monitor_ = std::thread([this] { Monitor(); });
  }

  ~Supervisor() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    monitor_.join();
    SetWorker(nullptr);
    close(wake_);
  }

  const std::string& device_id() const override { return options_.device_id; }

  v1::CaseResult Execute(const v1::CaseSpec& spec, int index, absl::Duration limit,
                         const CancelToken& cancel) override {
    CasesAhead none;
    return ExecuteLeading(spec, index, limit, cancel, none);
  }

  bool SharesLaunches() const override { return options_.shares_launches; }

  v1::CaseResult ExecuteLeading(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                const CancelToken& cancel, CasesAhead& ahead) override {
    std::unique_lock run(run_mutex_, std::defer_lock);
    if (run_mutex_.LockUnless(&cancel)) run = std::unique_lock(run_mutex_, std::adopt_lock);
    absl::Time start = absl::Now();
    v1::CaseResult result;
    std::string quarantine;
    {
      const std::lock_guard lock(mutex_);
      quarantine = device_.quarantine_reason();
    }
    if (cancel.cancelled()) {
      result = CancelledBefore(spec);
    } else if (!quarantine.empty()) {
      result = ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR, "fault",
                                Cat("device is quarantined: ", quarantine));
    } else {
      const Busy busy(*this);
      if (!options_.shares_launches || index < ahead.alone_below || ahead.Knows(index)) {
        ahead.next.clear();
      }
      std::optional<v1::CaseResult> ran = RunInWorker(spec, index, limit, cancel, ahead, &start);
      if (!ran) {
        ahead.next.clear();
        ran = RunInWorker(spec, index, limit, cancel, ahead, &start);
      }
      result = *std::move(ran);
      ahead.HoldAgainst(index, result);
    }
    result.set_index(index);
    if (!result.has_duration()) StampUntilNow(start, result);
    return result;
  }

  absl::StatusOr<v1::CaseResult> Compare(const v1::CompareHeader& header, PieceSource& pieces,
                                         absl::Duration limit, const CancelToken& cancel) override {
    const absl::Status cancelled = absl::CancelledError("cancelled before it began");
    if (!run_mutex_.LockUnless(&cancel)) return cancelled;
    const std::unique_lock run(run_mutex_, std::adopt_lock);
    if (cancel.cancelled()) return cancelled;
    const absl::Time start = absl::Now();
    std::string quarantine;
    {
      const std::lock_guard lock(mutex_);
      quarantine = device_.quarantine_reason();
    }
    absl::StatusOr<v1::CaseResult> result = ComparisonWithoutRun(
        header, device_id(), "fault", Cat("device is quarantined: ", quarantine));
    if (quarantine.empty()) {
      const Busy busy(*this);
      result = CompareInWorker(header, pieces, limit, cancel);
    }
    if (result.ok()) StampUntilNow(start, *result);
    return result;
  }

  Profile ProfileCase(Profiler profiler, const v1::CaseSpec& spec, absl::Duration limit,
                      const CancelToken& cancel) override {
    if (!run_mutex_.LockUnless(&cancel)) {
      return {.counters = {}, .note = Cat(Name(profiler), ": cancelled")};
    }
    const std::unique_lock run(run_mutex_, std::adopt_lock);
    const Busy busy(*this);
    ReleaseArena().IgnoreError();  // a worker that fails at it has been replaced
    const char* path = std::getenv("PATH");
    return RunUnderProfiler({.profiler = profiler,
                             .path = path == nullptr ? "" : path,
                             .worker_path = options_.worker_path,
                             .worker_args = options_.worker_args,
                             .environment = options_.environment,
                             .spec = spec,
                             .limit = limit,
                             .cancel = &cancel});
  }

  v1::Device Describe() override {
    const std::lock_guard lock(mutex_);
    return device_;
  }

  std::vector<v1::Kernel> Kernels() override {
    const std::lock_guard lock(mutex_);
    return options_.kernels;
  }

  absl::Status Release() override {
    if (const absl::Status status = RefuseBusy(); !status.ok()) return status;
    const std::unique_lock run(run_mutex_);
    LiftQuarantine();
    const Busy busy(*this);
    return ReleaseArena();
  }

  absl::Status GiveBack() override {
    if (const absl::Status status = RefuseBusy(); !status.ok()) return status;
    const std::unique_lock run(run_mutex_);
    const Busy busy(*this);
    return ReleaseArena();
  }

  absl::Status MeasureCeilings() override {
    if (const absl::Status status = RefuseBusy(); !status.ok()) return status;
    const std::unique_lock run(run_mutex_);
    {
      const std::lock_guard lock(mutex_);
      const auto& known = device_.ceilings();
      if (all_measured_ && std::none_of(known.begin(), known.end(), IsDoubtful))
        return absl::OkStatus();
    }
    const Busy busy(*this);
    if (absl::Status status = EnsureWorker(); !status.ok()) return status;
    worker::v1::MeasureCeilingsResponse response;
    const absl::Status status = PlainCall(
        absl::Minutes(2), "measuring the ceilings",
        [&](WorkerLink& w, const CallLimits& l) { return w.MeasureCeilings(l, &response); });
    if (!status.ok()) return status;
    const std::lock_guard lock(mutex_);
    *device_.mutable_ceilings() = response.ceilings();
    // Without the memory's some could not be measured: again.
    all_measured_ = FindRoof(device_.ceilings(), v1::DTYPE_UNSPECIFIED) != nullptr;
    return absl::OkStatus();
  }

 private:
  // While it lives the device is BUSY and the monitor leaves the worker alone.
  class Busy {
   public:
    explicit Busy(Supervisor& s) : s_(s) { s_.SetBusy(true); }
    ~Busy() { s_.SetBusy(false); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    Supervisor& s_;
  };

  void SetBusy(bool busy) {
    {
      const std::lock_guard lock(mutex_);
      busy_ = busy;
      last_used_ = absl::Now();
      if (device_.quarantine_reason().empty()) {
        device_.set_state(busy ? v1::DEVICE_STATE_BUSY : v1::DEVICE_STATE_READY);
      }
    }
    if (!busy) {
      Changed();
      Wake();
    }
  }

  void Wake() { eventfd_write(wake_, 1); }

  void Changed() {
    if (options_.on_change) options_.on_change(Describe());
  }

  absl::Status RefuseBusy() {
    const std::lock_guard lock(mutex_);
    if (!busy_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        Cat("device ", options_.device_id, " is busy with a case"));
  }

  // The worker is swapped under mutex_ and used by the holder of run_mutex_.
  void SetWorker(std::shared_ptr<WorkerLink> worker) {
    std::shared_ptr<WorkerLink> old;
    const std::lock_guard lock(mutex_);
    old = std::exchange(worker_, std::move(worker));
    if (worker_ == nullptr) device_.set_leased_bytes(0);
  }

  v1::CaseResult CancelledBefore(const v1::CaseSpec& spec) const {
    return ResultWithoutRun(spec, options_.device_id, v1::VERDICT_SKIPPED, "cancelled",
                            "cancelled before it began");
  }

  absl::StatusOr<v1::CaseResult> CompareInWorker(const v1::CompareHeader& header,
                                                 PieceSource& pieces, absl::Duration limit,
                                                 const CancelToken& cancel) {
    if (absl::Status status = EnsureWorker(&cancel); !status.ok()) {
      if (cancel.cancelled()) return absl::CancelledError("cancelled before it began");
      return ComparisonWithoutRun(header, device_id(), "fault", Cat(status.message()));
    }
    worker::v1::RunCaseResponse response;
    const auto [end, status] = worker_->CompareTensors(
        Limits(absl::InfiniteFuture(), &cancel), limit, kIdleClient, header, pieces, &response);
    // INTERNAL is the device's own error: whether its context survived is not known, and
    // a new worker knows.
    if (end == CallEnd::kAnswered && status.error_code() == grpc::StatusCode::INTERNAL) {
      Death death = Bury(CallEnd::kDeviceLost, limit);
      death.message = Cat(death.message, ": ", status.error_message());
      RecordDeath(death);
      return ComparisonWithoutRun(header, device_id(), death.finding,
                                  Cat(death.message, "; worker replaced"));
    }
    if (end == CallEnd::kAnswered) {
      const std::lock_guard lock(mutex_);
      if (!status.ok()) {
        return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            status.error_message());
      }
      toll_.Answered();
      device_.set_leased_bytes(response.leased_bytes());
      return std::move(*response.mutable_result());
    }
    Death death = Bury(end, limit);
    death.counts = death.counts && end != CallEnd::kDeadline;
    RecordDeath(death);
    if (end == CallEnd::kCancelled) return absl::CancelledError(death.message);
    return ComparisonWithoutRun(header, device_id(), death.finding,
                                Cat(death.message, "; worker replaced"));
  }

  // Sets `start` to when the worker began. None, where cases are ahead: it is to run alone.
  std::optional<v1::CaseResult> RunInWorker(const v1::CaseSpec& spec, int index,
                                            absl::Duration limit, const CancelToken& cancel,
                                            CasesAhead& ahead, absl::Time* start) {
    if (absl::Status status = EnsureWorker(&cancel); !status.ok()) {
      if (cancel.cancelled()) return CancelledBefore(spec);
      return ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR, "fault",
                              std::string(status.message()));
    }
    worker::v1::RunCaseRequest request;
    *request.mutable_spec() = spec;
    request.set_index(index);
    for (const v1::CaseSpec* next : ahead.next) *request.add_following() = *next;
    worker::v1::RunCaseResponse response;
    *start = absl::Now();
    const bool beside_others = !ahead.next.empty();
    const auto [end, status] =
        worker_->RunCase(Limits(*start + limit, &cancel), request, &response);
    if (end == CallEnd::kAnswered && status.ok()) {
      ahead.TakeLed(*start, index, response);
      if (!response.device_lost().empty()) {
        Death death = Bury(CallEnd::kDeviceLost, limit);
        death.message = Cat(death.message, ": ", response.device_lost());
        death.planted = IsPlanted(spec.provider());
        death.counts = !death.planted && !beside_others;
        RecordDeath(death);
        ahead.alone_below =
            std::max(ahead.alone_below, index + 1 + static_cast<int>(ahead.next.size()));
      } else {
        const std::lock_guard lock(mutex_);
        toll_.Answered();
        device_.set_leased_bytes(response.leased_bytes());
        MergeCeilings(response.ceilings(), device_);
      }
      if (beside_others && !response.has_result()) return std::nullopt;
      return std::move(*response.mutable_result());
    }
    if (end == CallEnd::kAnswered) {
      {
        const std::lock_guard lock(mutex_);
        toll_.Answered();
      }
      if (beside_others) {
        const PhasePage& page = worker_->process().page();
        ahead.Suspect(index, page.turn.load(), page.suspects.load(), status.error_message());
        return std::nullopt;
      }
      return ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR, "fault",
                              status.error_message());
    }
    Death death = Bury(end, limit);
    death.planted = IsPlanted(spec.provider());
    // How long a case may take is its client's word, and says nothing of the device:
    // one that hangs by itself fails at starting the next worker. What happens beside others
    // is seen again alone.
    death.counts = death.counts && !death.planted && end != CallEnd::kDeadline && !beside_others;
    RecordDeath(death);
    if (beside_others && end != CallEnd::kCancelled) {
      ahead.Suspect(index, death.turn, death.suspects, death.message);
      return std::nullopt;
    }
    v1::CaseResult result = ResultWithoutRun(
        spec, device_id(), end == CallEnd::kCancelled ? v1::VERDICT_SKIPPED : v1::VERDICT_ERROR,
        death.finding, Cat(death.message, "; worker replaced"));
    result.mutable_findings(0)->set_phase(std::string(death.phase));
    // Without it the line would repeat a case that has all the time there is.
    if (end == CallEnd::kDeadline) {
      Append(result.mutable_repro(), " --deadline ", absl::FormatDuration(limit));
    }
    return result;
  }

  CallLimits Limits(absl::Time deadline, const CancelToken* cancel = nullptr) const {
    return {deadline, cancel, options_.cancel_grace, options_.resident_cap_bytes};
  }

  // Requires run_mutex_. Buries the worker after a call that was not answered.
  Death Bury(CallEnd end, absl::Duration limit) {
    const Death death = worker_->Bury(end, limit, Limits(absl::InfiniteFuture()));
    SetWorker(nullptr);
    return death;
  }

  // A call outside of cases: `call` takes the worker and the limits.
  template <class Call>
  absl::Status PlainCall(absl::Duration limit, std::string_view what, Call call,
                         const CancelToken* cancel = nullptr) {
    const CallResult result = call(*worker_, Limits(absl::Now() + limit, cancel));
    if (result.end == CallEnd::kAnswered) {
      if (result.status.ok()) return absl::OkStatus();
      return absl::InternalError(Cat(what, ": ", result.status.error_message()));
    }
    const Death death = Bury(result.end, limit);
    RecordDeath(death);
    return absl::InternalError(Cat(what, ": ", death.message));
  }

  void RecordDeath(const Death& death) {
    std::string quarantine;
    int restarts = 0;
    {
      const std::lock_guard lock(mutex_);
      // What a planted kernel does on purpose says nothing of the device.
      restarts = device_.worker_restarts() + (death.planted ? 0 : 1);
      device_.set_worker_restarts(restarts);
      quarantine = toll_.Add(death, absl::Now());
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
           {"message", death.message},
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

  void LiftQuarantine() {
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

  // Requires run_mutex_. A worker that answers, started where there is none; a start
  // that is cancelled is an error. `cancel` may be null.
  absl::Status EnsureWorker(const CancelToken* cancel = nullptr) {
    if (worker_ != nullptr) {
      if (!worker_->Ended()) return absl::OkStatus();
      BuryIdle();
    }
    ProcessOptions process_options;
    process_options.path = options_.worker_path;
    process_options.args = options_.worker_args;
    process_options.args.push_back(Cat("--parent-pid=", getpid()));
    process_options.environment = options_.environment;
    process_options.output_fd = pump_.write_fd();
    absl::StatusOr<std::unique_ptr<WorkerLink>> started = WorkerLink::Start(process_options);
    if (!started.ok()) {
      RecordDeath({"fault", "start", std::string(started.status().message())});
      return started.status();
    }
    const pid_t pid = (*started)->process().pid();
    SetWorker(*std::move(started));

    worker::v1::DescribeResponse response;
    if (absl::Status status = PlainCall(
            options_.start_deadline, "starting a worker",
            [&](WorkerLink& w, const CallLimits& l) { return w.Describe(l, &response); }, cancel);
        !status.ok()) {
      return status;
    }
    Log(LogLevel::kInfo, "worker.started", {{"device", options_.device_id}, {"pid", pid}});
    return absl::OkStatus();
  }

  // Requires run_mutex_: a worker that has died between cases.
  void BuryIdle() {
    const Death death = worker_->BuryIdle();
    SetWorker(nullptr);
    RecordDeath(death);
  }

  // Requires run_mutex_.
  absl::Status ReleaseArena() {
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

  // What the monitor has to do next, and when.
  struct Duty {
    bool stop = false;
    std::shared_ptr<WorkerLink> watch;  // whose end matters now
    absl::Time start_at = absl::InfiniteFuture();
    absl::Time release_at = absl::InfiniteFuture();
  };

  Duty NextDuty() {
    const std::lock_guard lock(mutex_);
    Duty duty;
    duty.stop = stopping_;
    if (busy_) return duty;
    duty.watch = worker_;
    if (worker_ == nullptr && device_.quarantine_reason().empty())
      duty.start_at = toll_.next_start();
    if (worker_ != nullptr && device_.leased_bytes() > 0 &&
        options_.idle_release > absl::ZeroDuration()) {
      duty.release_at = last_used_ + options_.idle_release;
    }
    return duty;
  }

  // Between cases: starts a worker where there is none, sees one die, gives the
  // arena of an idle one back.
  void Monitor() {
    for (Duty duty = NextDuty(); !duty.stop; duty = NextDuty()) {
      const absl::Duration left = std::min(duty.start_at, duty.release_at) - absl::Now();
      pollfd fds[2] = {{wake_, POLLIN, 0},
                       {duty.watch ? duty.watch->process().pidfd() : -1, POLLIN, 0}};
      if (left > absl::ZeroDuration()) {
        const absl::Duration slice = std::min(left + absl::Milliseconds(1), absl::Minutes(1));
        poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(slice)));
      }
      eventfd_t ignored = 0;
      if ((fds[0].revents & POLLIN) != 0) eventfd_read(wake_, &ignored);

      duty = NextDuty();
      const absl::Time now = absl::Now();
      const bool ended = (fds[1].revents & POLLIN) != 0 && duty.watch != nullptr;
      if (duty.stop || (!ended && now < std::min(duty.start_at, duty.release_at))) continue;
      // Whoever holds the lock is about to make the device busy, and will see to
      // the worker itself.
      const std::unique_lock run(run_mutex_, std::try_to_lock);
      if (!run.owns_lock()) {
        std::this_thread::yield();
        continue;
      }
      if (ended && worker_ == duty.watch && worker_->Ended()) {
        BuryIdle();
      } else if (now >= duty.start_at && worker_ == nullptr) {
        EnsureWorker().IgnoreError();  // has been logged and counted
      } else if (now >= duty.release_at && worker_ != nullptr) {
        ReleaseArena().IgnoreError();  // a worker that fails at it has been replaced
      }
    }
  }

  SupervisorOptions options_;
  OutputPump pump_;
  LogRateLimit death_log_{1, 10};

  TurnLock run_mutex_;  // held by whoever drives the worker
  std::mutex mutex_;    // guards what follows
  v1::Device device_;
  std::shared_ptr<WorkerLink> worker_;
  bool busy_ = false;
  bool stopping_ = false;
  bool all_measured_ = false;  // the ceilings
  DeathToll toll_;
  absl::Time last_used_ = absl::Now();

  const int wake_;
  std::thread monitor_;
};

}  // namespace

std::unique_ptr<CaseExecutor> MakeSupervisor(SupervisorOptions options) {
  return std::make_unique<Supervisor>(std::move(options));
}

}  // namespace assay
