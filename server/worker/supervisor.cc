#include "server/worker/supervisor.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/worker/v1/worker.pb.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/compare_header.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "server/base/request_errors.h"
#include "server/base/roofs.h"
#include "server/base/wire.h"
#include "server/worker/profile_run.h"
#include "server/worker/worker_keeper.h"

namespace assay::server {
namespace {

// A client that sends no piece of its tensors for so long does not get to keep the device.
constexpr absl::Duration kIdleClient = absl::Seconds(30);

constexpr std::string_view kNoResult = "the worker answered without a result";

v1::Finding Fault(std::string_view message, v1::Blame blame = v1::BLAME_DEVICE) {
  v1::Finding finding = MakeFinding(v1::REASON_FAULT, message);
  finding.set_blame(blame);
  return finding;
}

v1::Finding SetAside(std::string_view quarantine) {
  v1::Finding finding = Fault(Cat("device is quarantined: ", quarantine));
  finding.set_quarantined(true);
  return finding;
}

v1::Finding Replaced(const Death& death) {
  v1::Finding finding = death.finding;
  Append(finding.mutable_message(), "; worker replaced");
  return finding;
}

// Whether the worker says that it could not reach the caller any more.
bool IsLoss(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_ERROR && result.findings_size() > 0 &&
         std::all_of(result.findings().begin(), result.findings().end(),
                     [](const v1::Finding& f) { return f.reason_code() == v1::REASON_CANCELLED; });
}

// Ends what is left of a job whose caller owes the end of a launch.
void FailOwing(CallerLink& caller, v1::Blame blame) {
  v1::Finding finding = MakeFinding(
      v1::REASON_CANCELLED,
      "a case before ended while the caller's function ran, so the answers of its launch could be "
      "taken for those of this case");
  finding.set_blame(blame);
  caller.Fail(std::move(finding));
}

// Whether the death of a worker says something of its device. Planted kernels die on purpose, and
// nobody knows what a user's kernel does.
bool SpeaksAgainstDevice(const v1::CaseSpec& spec) {
  return !IsPlanted(spec.provider()) && !IsUserKernel(spec.provider());
}

bool LearnNothing(v1::Device&) { return false; }

// Returns whether the device held another number of bytes before.
bool LearnLeased(std::int64_t bytes, v1::Device& device) {
  const bool news = device.leased_bytes() != bytes;
  device.set_leased_bytes(bytes);
  return news;
}

class Supervisor final : public CaseExecutor {
 public:
  explicit Supervisor(SupervisorOptions options)
      : options_(std::move(options)), keeper_(options_) {}

  const std::string& device_id() const override { return options_.device_id; }

  v1::CaseResult Execute(const v1::CaseSpec& spec, int index, absl::Duration limit,
                         const CancelToken& cancel) override {
    CasesAhead none;
    return ExecuteLeading(spec, index, limit, cancel, none);
  }

  bool SharesLaunches() const override { return options_.shares_launches; }

  v1::CaseResult ExecuteLeading(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                const CancelToken& cancel, CasesAhead& ahead) override {
    std::unique_lock turn(keeper_.turn(), std::defer_lock);
    if (keeper_.turn().LockUnless(&cancel)) {
      turn = std::unique_lock(keeper_.turn(), std::adopt_lock);
    }
    absl::Time start = EvenTime();
    v1::CaseResult result;
    const std::string quarantine = keeper_.Quarantine();
    if (cancel.cancelled()) {
      result = CancelledBefore(spec);
    } else if (!quarantine.empty() && index >= ahead.counted_below) {
      result = ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR, SetAside(quarantine));
    } else {  // a case that ran before the quarantine may run again
      const WorkerKeeper::Busy busy(keeper_);
      if (index < ahead.alone_below || ahead.Knows(index)) {
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

  v1::CaseResult ExecuteElsewhere(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                  const CancelToken& cancel, CallerLink& caller) override {
    std::unique_lock turn(keeper_.turn(), std::defer_lock);
    if (keeper_.turn().LockUnless(&cancel)) {
      turn = std::unique_lock(keeper_.turn(), std::adopt_lock);
    }
    const absl::Time start = EvenTime();
    v1::CaseResult result;
    const std::optional<v1::Finding> failure = caller.failure();
    const std::string quarantine = keeper_.Quarantine();
    if (cancel.cancelled()) {
      result = CancelledBefore(spec);
    } else if (failure) {
      result = ResultWithoutRun(spec, device_id(), v1::VERDICT_SKIPPED, *failure);
    } else if (!quarantine.empty()) {
      result = ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR, SetAside(quarantine));
    } else {
      const WorkerKeeper::Busy busy(keeper_);
      result = RunElsewhere(spec, index, limit, cancel, caller);
    }
    result.set_index(index);
    StampUntilNow(start, result);
    return result;
  }

  absl::StatusOr<v1::CaseResult> Compare(const v1::CompareHeader& header, PieceSource& pieces,
                                         absl::Duration limit, const CancelToken& cancel) override {
    const absl::Status cancelled = absl::CancelledError("cancelled before it began");
    if (!keeper_.turn().LockUnless(&cancel)) return cancelled;
    const std::unique_lock turn(keeper_.turn(), std::adopt_lock);
    if (cancel.cancelled()) return cancelled;
    const absl::Time start = EvenTime();
    const std::string quarantine = keeper_.Quarantine();
    absl::StatusOr<v1::CaseResult> result =
        ComparisonWithoutRun(header, device_id(), SetAside(quarantine));
    if (quarantine.empty()) {
      const WorkerKeeper::Busy busy(keeper_);
      result = CompareInWorker(header, pieces, limit, cancel);
    }
    if (result.ok()) StampUntilNow(start, *result);
    return result;
  }

  Profile ProfileCase(Profiler profiler, const v1::CaseSpec& spec, absl::Duration limit,
                      const CancelToken& cancel) override {
    if (IsUserKernel(spec.provider())) {
      return {.counters = {}, .note = Cat(Name(profiler), ": a user's kernel is not profiled")};
    }
    if (!keeper_.turn().LockUnless(&cancel)) {
      return {.counters = {}, .note = Cat(Name(profiler), ": cancelled")};
    }
    const std::unique_lock turn(keeper_.turn(), std::adopt_lock);
    const WorkerKeeper::Busy busy(keeper_);
    keeper_.ReleaseArena().IgnoreError();  // a worker that fails at it has been replaced
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

  v1::Device Describe() override { return keeper_.Describe(); }

  const std::vector<v1::Kernel>& Kernels() const override { return options_.kernels; }

  absl::Status Release() override {
    if (absl::Status status = keeper_.RefuseBusy(); !status.ok()) return status;
    const std::unique_lock turn(keeper_.turn());
    keeper_.LiftQuarantine();
    const WorkerKeeper::Busy busy(keeper_);
    return keeper_.ReleaseArena();
  }

  absl::Status GiveBack() override {
    if (absl::Status status = keeper_.RefuseBusy(); !status.ok()) return status;
    const std::unique_lock turn(keeper_.turn());
    const WorkerKeeper::Busy busy(keeper_);
    return keeper_.ReleaseArena();
  }

  absl::Status MeasureCeilings(const CancelToken& cancel) override {
    absl::Status cancelled = absl::CancelledError("cancelled before the ceilings were there");
    if (absl::Status status = keeper_.RefuseBusy(); !status.ok()) return status;
    if (!keeper_.turn().LockUnless(&cancel)) return cancelled;
    const std::unique_lock turn(keeper_.turn(), std::adopt_lock);
    if (cancel.cancelled()) return cancelled;
    const v1::Device known = keeper_.Describe();
    if (all_measured_ &&
        std::none_of(known.ceilings().begin(), known.ceilings().end(), IsDoubtful)) {
      return absl::OkStatus();
    }
    const WorkerKeeper::Busy busy(keeper_);
    worker::v1::MeasureCeilingsResponse response;
    absl::Status status = keeper_.EnsureWorker(&cancel);
    if (status.ok()) {
      status = keeper_.PlainCall(
          absl::Minutes(2), "measuring the ceilings",
          [&](WorkerLink& w, const CallLimits& l) { return w.MeasureCeilings(l, &response); },
          &cancel);
    }
    if (!status.ok()) return cancel.cancelled() ? cancelled : status;
    keeper_.KeepCeilings(response.kept_ceilings());
    keeper_.Learn([&](v1::Device& device) {
      *device.mutable_ceilings() = response.ceilings();
      return true;
    });
    // Without the memory's some could not be measured: again.
    all_measured_ = FindRoof(response.ceilings(), v1::DTYPE_UNSPECIFIED) != nullptr;
    return absl::OkStatus();
  }

 private:
  v1::CaseResult CancelledBefore(const v1::CaseSpec& spec) const {
    return ResultWithoutRun(spec, options_.device_id, v1::VERDICT_SKIPPED,
                            MakeFinding(v1::REASON_CANCELLED, "cancelled before it began"));
  }

  // `what`: "kernel" or "reference", which is its option, too.
  v1::CaseResult KernelIsGone(const v1::CaseSpec& spec, std::string_view what) const {
    return ResultWithoutRun(
        spec, options_.device_id, v1::VERDICT_UNSUPPORTED,
        MakeFinding(v1::REASON_UNSUPPORTED,
                    Cat("the daemon does not have the ", what,
                        " any more; send its file again (assay run … --", what, " FILE)")));
  }

  absl::StatusOr<v1::CaseResult> CompareInWorker(const v1::CompareHeader& header,
                                                 PieceSource& pieces, absl::Duration limit,
                                                 const CancelToken& cancel) {
    if (absl::Status status = keeper_.EnsureWorker(&cancel); !status.ok()) {
      if (cancel.cancelled()) return absl::CancelledError("cancelled before it began");
      return ComparisonWithoutRun(header, device_id(),
                                  Fault(Cat(status.message()), v1::BLAME_HOST));
    }
    worker::v1::RunCaseResponse response;
    const auto [end, status] =
        keeper_.worker().CompareTensors(keeper_.Limits(absl::InfiniteFuture(), &cancel), limit,
                                        kIdleClient, header, pieces, &response);
    // INTERNAL is the device's own error: whether its context survived is not known, and
    // a new worker knows.
    if (end == CallEnd::kAnswered && status.error_code() == grpc::StatusCode::INTERNAL) {
      Death death = keeper_.Bury(CallEnd::kDeviceLost, limit);
      Append(death.finding.mutable_message(), ": ", status.error_message());
      keeper_.RecordDeath(death);
      return ComparisonWithoutRun(header, device_id(), Replaced(death));
    }
    if (end == CallEnd::kAnswered) {
      if (!status.ok()) {
        return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            status.error_message());
      }
      keeper_.Answered(
          [&](v1::Device& device) { return LearnLeased(response.leased_bytes(), device); });
      if (response.has_result()) return std::move(*response.mutable_result());
      if (response.has_refused()) return BadRequestError(response.refused());
      return ComparisonWithoutRun(header, device_id(), Fault(kNoResult, v1::BLAME_HOST));
    }
    Death death = keeper_.Bury(end, limit);
    death.counts = death.counts && end != CallEnd::kDeadline;
    keeper_.RecordDeath(death);
    if (end == CallEnd::kCancelled) return absl::CancelledError(death.finding.message());
    return ComparisonWithoutRun(header, device_id(), Replaced(death));
  }

  // No death of the worker counts: what the caller does must not set the device aside.
  v1::CaseResult RunElsewhere(const v1::CaseSpec& spec, int index, absl::Duration limit,
                              const CancelToken& cancel, CallerLink& caller) {
    if (absl::Status status = keeper_.EnsureWorker(&cancel); !status.ok()) {
      if (cancel.cancelled()) return CancelledBefore(spec);
      return ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR,
                              Fault(Cat(status.message()), v1::BLAME_HOST));
    }
    worker::v1::RunCaseRequest request;
    *request.mutable_spec() = spec;
    request.set_index(index);
    if (IsUserKernel(spec.reference()) && !FindReference(spec, request)) {
      return KernelIsGone(spec, "reference");
    }
    worker::v1::RunCaseResponse response;
    bool owes = false;
    const auto [end, status] = keeper_.worker().RunElsewhere(
        keeper_.Limits(EvenTime() + limit, &cancel), request, caller, &response, &owes);
    const std::optional<v1::Finding> failure = caller.failure();
    const bool lost = end == CallEnd::kAnswered && !response.device_lost().empty();
    if (end != CallEnd::kAnswered || lost) {
      Death death = keeper_.Bury(lost ? CallEnd::kDeviceLost : end, limit);
      death.counts = false;
      keeper_.RecordDeath(death);
      if (owes) FailOwing(caller, death.finding.blame());
      if (!response.has_result() || end == CallEnd::kCancelled) {
        return ResultWithoutRun(
            spec, device_id(), end == CallEnd::kCancelled ? v1::VERDICT_SKIPPED : v1::VERDICT_ERROR,
            Replaced(death));
      }
    } else {
      // With a result, the caller answered with what is no answer.
      if (owes) FailOwing(caller, response.has_result() ? v1::BLAME_CALLER : v1::BLAME_HOST);
      keeper_.Answered(
          [&](v1::Device& device) { return LearnLeased(response.leased_bytes(), device); });
    }
    if (failure && (!response.has_result() || IsLoss(response.result()))) {
      const bool slow = failure->reason_code() == v1::REASON_TIMEOUT;
      return ResultWithoutRun(spec, device_id(), slow ? v1::VERDICT_ERROR : v1::VERDICT_SKIPPED,
                              *failure);
    }
    if (response.has_result()) return std::move(*response.mutable_result());
    return ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR,
                            Fault(Cat(kNoResult, ": ", status.error_message()), v1::BLAME_HOST));
  }

  // Says where the library of the case's reference lies. False: there is none any more.
  bool FindReference(const v1::CaseSpec& spec, worker::v1::RunCaseRequest& request) const {
    if (options_.kernel_file) request.set_reference_file(options_.kernel_file(spec.reference()));
    return !request.reference_file().empty();
  }

  // Fills in the request of a call. A result if a user's kernel that the case names is gone.
  std::optional<v1::CaseResult> MakeRequest(const v1::CaseSpec& spec, int index,
                                            const CasesAhead& ahead,
                                            worker::v1::RunCaseRequest& request) const {
    *request.mutable_spec() = spec;
    request.set_index(index);
    if (IsUserKernel(spec.provider())) {
      if (options_.kernel_file) request.set_kernel_file(options_.kernel_file(spec.provider()));
      if (request.kernel_file().empty()) return KernelIsGone(spec, "kernel");
    }
    if (IsUserKernel(spec.reference()) && !FindReference(spec, request)) {
      return KernelIsGone(spec, "reference");
    }
    for (const v1::CaseSpec* next : ahead.next) *request.add_following() = *next;
    return std::nullopt;
  }

  // Sets `start` to when the worker began. None, where cases are ahead: it is to run alone.
  std::optional<v1::CaseResult> RunInWorker(const v1::CaseSpec& spec, int index,
                                            absl::Duration limit, const CancelToken& cancel,
                                            CasesAhead& ahead, absl::Time* start) {
    const bool guest = IsUserKernel(spec.provider()) && !RunsOnHost(options_.device.backend());
    if (absl::Status status = keeper_.EnsureWorker(&cancel, guest ? spec.provider() : "");
        !status.ok()) {
      if (cancel.cancelled()) return CancelledBefore(spec);
      return ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR,
                              Fault(Cat(status.message()), v1::BLAME_HOST));
    }
    worker::v1::RunCaseRequest request;
    if (std::optional<v1::CaseResult> gone = MakeRequest(spec, index, ahead, request)) return gone;
    worker::v1::RunCaseResponse response;
    keeper_.TakeRefused();
    *start = EvenTime();
    const bool beside_others = options_.shares_launches && !ahead.next.empty();
    turns_ = keeper_.worker().process().page().turns.load();
    const auto [end, status] =
        keeper_.worker().RunCase(keeper_.Limits(*start + limit, &cancel), request, &response);
    refused_ = keeper_.TakeRefused();
    if (response.has_result()) AddRefused(refused_, 0, response.mutable_result());
    for (worker::v1::FollowingResult& following : *response.mutable_following()) {
      if (following.has_result()) {
        AddRefused(refused_, following.place(), following.mutable_result());
      }
    }
    // Ceilings that were measured behind a user's code judge no other kernel.
    if (!guest) keeper_.KeepCeilings(response.kept_ceilings());
    if (end == CallEnd::kAnswered && status.ok()) {
      ahead.TakeLed(*start, index, response);
      if (!response.device_lost().empty()) {
        Death death = keeper_.Bury(CallEnd::kDeviceLost, limit);
        Append(death.finding.mutable_message(), ": ", response.device_lost());
        death.planted = !SpeaksAgainstDevice(spec);
        death.counts = !death.planted && !beside_others;
        keeper_.RecordDeath(death);
        ahead.alone_below =
            std::max(ahead.alone_below, index + 1 + static_cast<int>(ahead.next.size()));
      } else {
        const auto learn = [&](v1::Device& device) {
          const bool told = !guest && !response.ceilings().empty();
          if (told) MergeCeilings(response.ceilings(), device);
          return LearnLeased(response.leased_bytes(), device) || told;
        };
        index < ahead.counted_below ? keeper_.Learn(learn) : keeper_.Answered(learn);
      }
      if (response.has_result()) return std::move(*response.mutable_result());
      if (beside_others) return std::nullopt;
      return ResultWithoutRun(spec, device_id(), v1::VERDICT_ERROR,
                              response.device_lost().empty()
                                  ? Fault(kNoResult, v1::BLAME_HOST)
                                  : Fault(Cat(kNoResult, ": ", response.device_lost())));
    }
    return WithoutResult(spec, index, limit, *start, ahead, end, status);
  }

  // The case of a call, at 0, or one of those behind it.
  static const v1::CaseSpec& SpecAt(const v1::CaseSpec& spec, const CasesAhead& ahead, int at) {
    return at == 0 ? spec : *ahead.next[static_cast<std::size_t>(at) - 1];
  }

  // Returns the result of the call's own case, at 0. The result of one behind it is kept ahead.
  std::optional<v1::CaseResult> Keep(int index, int at, absl::Time start, CasesAhead& ahead,
                                     v1::CaseResult result) {
    AddRefused(refused_, at, &result);
    if (at == 0) return result;
    StampUntilNow(start, result);
    ahead.EndedIn(index, at, std::move(result));
    return std::nullopt;
  }

  // What came of a call that gave no result: of the case itself, or of one behind it in whose turn
  // it failed. Then the case is to run again, and none is returned. The same happens if nobody
  // knows in whose turn it failed.
  std::optional<v1::CaseResult> WithoutResult(const v1::CaseSpec& spec, int index,
                                              absl::Duration limit, absl::Time start,
                                              CasesAhead& ahead, CallEnd end,
                                              const grpc::Status& status) {
    const bool beside_others = options_.shares_launches && !ahead.next.empty();
    // Of a worker that is idle the page may still have the turn of an earlier call.
    const bool idle =
        keeper_.worker().process().page().phase.load() == static_cast<std::uint32_t>(Phase::kIdle);
    const auto place = [&](int turn) {
      const bool in_turn = !idle && !beside_others && end != CallEnd::kCancelled;
      return in_turn && turn > 0 && turn <= static_cast<int>(ahead.next.size()) ? turn : 0;
    };
    if (end == CallEnd::kAnswered) {
      keeper_.Answered(LearnNothing);
      const PhasePage& page = keeper_.worker().process().page();
      if (beside_others) {
        ahead.Suspect(index, page.turn.load(), page.suspects.load(), status.error_message());
        return std::nullopt;
      }
      const int at = place(page.turn.load());
      return Keep(index, at, start, ahead,
                  ResultWithoutRun(SpecAt(spec, ahead, at), device_id(), v1::VERDICT_ERROR,
                                   Fault(status.error_message(), v1::BLAME_LIBRARY)));
    }
    // It died as it answered, behind the turns of several cases. Whose fault it was is seen when
    // each runs alone.
    const bool answering = idle && !beside_others && end != CallEnd::kCancelled &&
                           !ahead.next.empty() &&
                           keeper_.worker().process().page().turns.load() != turns_;
    Death death = keeper_.Bury(end, limit);
    if (answering) {
      death.counts = false;
      keeper_.RecordDeath(death);
      ahead.alone_below =
          std::max(ahead.alone_below, index + 1 + static_cast<int>(ahead.next.size()));
      return std::nullopt;
    }
    const int at = place(death.turn);
    if (at > 0) keeper_.Answered(LearnNothing);  // the cases before it
    death.planted = !SpeaksAgainstDevice(SpecAt(spec, ahead, at));
    // How long a case may take is its client's word, and says nothing of the device:
    // one that hangs by itself fails at starting the next worker. What happens beside others
    // is seen again alone.
    death.counts = death.counts && !death.planted && end != CallEnd::kDeadline && !beside_others;
    keeper_.RecordDeath(death);
    if (beside_others && end != CallEnd::kCancelled) {
      ahead.Suspect(index, death.turn, death.suspects, death.finding.message());
      return std::nullopt;
    }
    v1::CaseResult result = ResultWithoutRun(
        SpecAt(spec, ahead, at), device_id(),
        end == CallEnd::kCancelled ? v1::VERDICT_SKIPPED : v1::VERDICT_ERROR, Replaced(death));
    // Without it the line would repeat a case that has all the time there is.
    if (end == CallEnd::kDeadline) {
      Append(result.mutable_repro(), " --deadline ", absl::FormatDuration(limit));
    }
    return Keep(index, at, start, ahead, std::move(result));
  }

  const SupervisorOptions options_;
  bool all_measured_ = false;    // the ceilings; the turn's
  RefusedCalls::Taken refused_;  // of the last call to the worker; the turn's
  std::uint32_t turns_ = 0;      // of the worker's page before that call; the turn's
  WorkerKeeper keeper_;          // last: its thread is the first to end
};

}  // namespace

std::unique_ptr<CaseExecutor> MakeSupervisor(SupervisorOptions options) {
  return std::make_unique<Supervisor>(std::move(options));
}

}  // namespace assay::server
