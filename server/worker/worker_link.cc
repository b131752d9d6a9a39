#include "server/worker/worker_link.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "kernels/judge/finding.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "server/worker/ferry.h"

namespace assay::server {
namespace {

// A cancelled case is looked for this often.
constexpr absl::Duration kPoll = absl::Milliseconds(20);
// The worker's memory is looked at this often.
constexpr absl::Duration kMemoryPoll = absl::Milliseconds(100);
// The connection breaks some time before a process that ends has ended. Such a process gets this
// long to end by its own cause, before the cause becomes our SIGKILL.
constexpr absl::Duration kCauseDeadline = absl::Seconds(5);
// How long a killed worker may take to be gone.
constexpr absl::Duration kReapDeadline = absl::Seconds(10);

Death DeathOf(v1::Reason reason, v1::DeathCause cause, std::string_view message) {
  Death death;
  death.finding = MakeFinding(reason, message);
  death.finding.mutable_death()->set_cause(cause);
  death.restart_reason = ReasonWord(static_cast<Reason>(reason));
  // A device takes no memory of the host, and kills nobody.
  death.counts = cause != v1::DEATH_CAUSE_KILLED && cause != v1::DEATH_CAUSE_MEMORY &&
                 cause != v1::DEATH_CAUSE_CANCELLED;
  return death;
}

// A worker that the daemon did not end. `where` completes the message: " between cases".
Death DeathBy(const ExitCause& cause, std::string_view where) {
  // The daemon sent neither: an operator did, or what frees the memory of a host that has none
  // left.
  const bool killed = cause.signal == SIGKILL || cause.signal == SIGTERM;
  Death death = DeathOf(v1::REASON_CRASH,
                        killed              ? v1::DEATH_CAUSE_KILLED
                        : cause.signal != 0 ? v1::DEATH_CAUSE_SIGNAL
                                            : v1::DEATH_CAUSE_EXIT,
                        Cat("worker ", cause.Text(),
                            !killed                   ? ""
                            : cause.signal == SIGKILL ? " from outside (out of memory?)"
                                                      : " from outside",
                            where));
  if (cause.signal != 0) {
    death.finding.mutable_death()->set_signal(cause.signal);
  } else {
    death.finding.mutable_death()->set_exit_code(cause.status);
    death.restart_reason = "exit";
  }
  return death;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerLink>> WorkerLink::Start(const ProcessOptions& options) {
  absl::StatusOr<std::unique_ptr<WorkerProcess>> process = WorkerProcess::Start(options);
  if (!process.ok()) return process.status();
  auto link = std::unique_ptr<WorkerLink>(new WorkerLink);
  link->process_ = *std::move(process);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostAnswerBytes);
  arguments.SetMaxSendMessageSize(-1);
  link->stub_ = worker::v1::WorkerService::NewStub(grpc::CreateCustomInsecureChannelFromFd(
      "assay-worker", link->process_->TakeSocket(), arguments));
  return link;
}

// What the thread of a call waits on.
class Bell {
 public:
  void Ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_all();
  }
  void RingLast() {
    const std::lock_guard lock(mutex_);
    last_ = true;
    changed_.notify_all();
  }
  // Until it was rung or rung for the last time, or `time` is over; whether the latter.
  bool Wait(absl::Duration time) {
    std::unique_lock lock(mutex_);
    // To wait for no time takes one all the same: the kernel sets a timer.
    if (time > absl::ZeroDuration()) {
      changed_.wait_for(lock, absl::ToChronoNanoseconds(time), [this] { return rung_ || last_; });
    }
    rung_ = false;
    return last_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
  bool last_ = false;
};

template <class Send>
CallResult WorkerLink::Call(const CallLimits& limits, Send send) {
  Bell bell;
  return Call(limits, bell, std::move(send), [](CallLimits&, grpc::ClientContext&, bool) {});
}

template <class Send, class Step>
CallResult WorkerLink::Call(CallLimits limits, Bell& bell, Send send, Step step) {
  CallResult result;
  grpc::ClientContext context;
  send(&context, std::function<void(grpc::Status)>([&](grpc::Status status) {
    result.status = std::move(status);
    bell.RingLast();
  }));
  absl::Time kill_at = absl::InfiniteFuture();
  absl::Time look_at = EvenTime() + kMemoryPoll;
  CallEnd ended = CallEnd::kDeadline;
  absl::Duration wait;
  while (!bell.Wait(wait)) {
    step(limits, context, false);
    const absl::Time now = EvenTime();
    if (ended != CallEnd::kCancelled && limits.cancel != nullptr && limits.cancel->cancelled()) {
      ended = CallEnd::kCancelled;
      kill_at = now + limits.cancel_grace;
    }
    if (now >= limits.deadline) kill_at = now;
    if (now >= look_at) {
      look_at = now + kMemoryPoll;
      if (limits.resident_cap_bytes > 0 && process_->ResidentBytes() > limits.resident_cap_bytes) {
        ended = CallEnd::kMemory;
        kill_at = now;
      }
    }
    if (now >= kill_at) {
      process_->Kill();
      context.TryCancel();
      do {
        step(limits, context, true);
      } while (!bell.Wait(kPoll));
      result.end = ended;
      return result;
    }
    wait = std::min({kPoll, limits.deadline - now, kill_at - now});
  }
  // A worker that refuses a call has answered. A broken connection has many codes, such as UNKNOWN
  // when a kernel wrote into it. A call that `step` cancelled leaves a worker that works.
  const bool answered = result.status.ok() ||
                        context.GetServerTrailingMetadata().count(kAnsweredKey) > 0 ||
                        result.status.error_code() == grpc::StatusCode::CANCELLED;
  result.end = answered ? CallEnd::kAnswered : CallEnd::kBroken;
  return result;
}

CallResult WorkerLink::Describe(const CallLimits& limits,
                                const worker::v1::DescribeRequest& request,
                                worker::v1::DescribeResponse* response) {
  return Call(limits, [&](grpc::ClientContext* context, std::function<void(grpc::Status)> done) {
    stub_->async()->Describe(context, &request, response, std::move(done));
  });
}

namespace {

bool HasVerdict(const v1::CaseResult& result) {
  return v1::Verdict_IsValid(result.verdict()) && result.verdict() != v1::VERDICT_UNSPECIFIED;
}

// A kernel may have written into what the worker answers from. An answer without a verdict that the
// daemon knows is none.
void RefuseNonsense(worker::v1::RunCaseResponse* response, CallResult& result) {
  bool known = !response->has_result() || HasVerdict(response->result());
  for (const worker::v1::FollowingResult& following : response->following()) {
    known = known && (!following.has_result() || HasVerdict(following.result()));
  }
  if (known) return;
  response->Clear();
  if (result.end == CallEnd::kAnswered) result.end = CallEnd::kBroken;
}

}  // namespace

CallResult WorkerLink::RunCase(const CallLimits& limits, const worker::v1::RunCaseRequest& request,
                               worker::v1::RunCaseResponse* response) {
  const absl::Duration limit = limits.deadline - EvenTime();
  std::uint32_t turns = process_->page().turns.load();
  Bell bell;
  CallResult result = Call(
      limits, bell,
      [&](grpc::ClientContext* context, std::function<void(grpc::Status)> done) {
        stub_->async()->RunCase(context, &request, response, std::move(done));
      },
      [&](CallLimits& now, grpc::ClientContext&, bool) {
        const std::uint32_t begun = process_->page().turns.load();
        if (request.following().empty() || std::exchange(turns, begun) == begun) return;
        now.deadline = EvenTime() + limit;
      });
  // No worker answers a case with this code: gRPC did not take the answer.
  const bool too_large = result.end == CallEnd::kAnswered &&
                         result.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  if (too_large) result.end = CallEnd::kTooLarge;
  RefuseNonsense(response, result);
  return result;
}

namespace {

// The writing half of a comparison: one message at a time, from the thread of the call.
class Feeder final : public grpc::ClientWriteReactor<v1::CompareTensorsRequest> {
 public:
  Feeder(Bell& bell, PieceSource& pieces, const v1::CompareHeader& header)
      : bell_(bell), pieces_(pieces) {
    *message_.mutable_header() = header;
  }

  void Begin(std::function<void(grpc::Status)> done) {
    done_ = std::move(done);
    writing_ = true;
    AddHold();  // until everything is written, or nothing more will be
    StartWrite(&message_);
    StartCall();
  }

  // Writes the next piece where there is one; says when the last was.
  bool Step(absl::Duration idle, grpc::ClientContext& context, bool give_up) {
    if (closed_ || (writing_ && !give_up)) return false;
    if (broken_ || give_up) {
      Close();
      return false;
    }
    switch (pieces_.Take(&message_)) {
      case PieceSource::Next::kPiece:
        last_piece_ = EvenTime();
        writing_ = true;
        StartWrite(&message_);
        return false;
      case PieceSource::Next::kEnd:
        StartWritesDone();
        Close();
        return true;
      case PieceSource::Next::kWait:
        if (EvenTime() - last_piece_ < idle) return false;
        idle_ = true;
        break;
      case PieceSource::Next::kGone:
        break;
    }
    context.TryCancel();
    Close();
    return false;
  }

  bool idle() const { return idle_; }
  bool closed() const { return closed_; }
  // When the worker should have taken the message that is on its way to it.
  absl::Time DueWithin(absl::Duration limit) const {
    return writing_ ? last_piece_ + limit : absl::InfiniteFuture();
  }

 private:
  void Close() {
    closed_ = true;
    RemoveHold();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) broken_ = true;
    writing_ = false;
    bell_.Ring();
  }
  void OnDone(const grpc::Status& status) override { done_(status); }

  Bell& bell_;
  PieceSource& pieces_;
  std::function<void(grpc::Status)> done_;
  v1::CompareTensorsRequest message_;  // the writer's while `writing_`
  std::atomic<bool> writing_{false};
  std::atomic<bool> broken_{false};
  absl::Time last_piece_ = EvenTime();
  bool closed_ = false;
  bool idle_ = false;
};

}  // namespace

CallResult WorkerLink::CompareTensors(const CallLimits& limits, absl::Duration limit,
                                      absl::Duration idle, const v1::CompareHeader& header,
                                      PieceSource& pieces, worker::v1::RunCaseResponse* response) {
  Bell bell;
  Feeder feeder(bell, pieces, header);
  pieces.SetWake([&bell] { bell.Ring(); });
  CallResult result = Call(
      limits, bell,
      [&](grpc::ClientContext* context, std::function<void(grpc::Status)> done) {
        stub_->async()->CompareTensors(context, response, &feeder);
        feeder.Begin(std::move(done));
      },
      [&](CallLimits& l, grpc::ClientContext& context, bool give_up) {
        if (feeder.Step(idle, context, give_up)) {
          l.deadline = EvenTime() + limit;
        } else if (!feeder.closed()) {
          l.deadline = feeder.DueWithin(std::max(limit, idle));
        }
      });
  pieces.SetWake(nullptr);
  if (feeder.idle() && result.status.error_code() == grpc::StatusCode::CANCELLED) {
    result.status = {grpc::StatusCode::DEADLINE_EXCEEDED,
                     Cat("no piece of a tensor came for ", absl::FormatDuration(idle))};
  }
  RefuseNonsense(response, result);
  return result;
}

CallResult WorkerLink::RunElsewhere(const CallLimits& limits,
                                    const worker::v1::RunCaseRequest& request, CallerLink& caller,
                                    worker::v1::RunCaseResponse* response, bool* owes) {
  Bell bell;
  Ferry ferry([&bell] { bell.Ring(); }, caller, request, response);
  caller.SetWake([&bell] { bell.Ring(); });
  CallResult result = Call(
      limits, bell,
      [&](grpc::ClientContext* context, std::function<void(grpc::Status)> done) {
        stub_->async()->RunElsewhere(context, &ferry);
        ferry.Begin(std::move(done));
      },
      [&](CallLimits& l, grpc::ClientContext&, bool give_up) { ferry.Step(&l.deadline, give_up); });
  caller.SetWake(nullptr);
  *owes = ferry.owes();
  RefuseNonsense(response, result);
  return result;
}

CallResult WorkerLink::ReleaseArena(const CallLimits& limits,
                                    worker::v1::ReleaseArenaResponse* response) {
  const worker::v1::ReleaseArenaRequest request;
  return Call(limits, [&](grpc::ClientContext* context, std::function<void(grpc::Status)> done) {
    stub_->async()->ReleaseArena(context, &request, response, std::move(done));
  });
}

CallResult WorkerLink::MeasureCeilings(const CallLimits& limits,
                                       worker::v1::MeasureCeilingsResponse* response) {
  const worker::v1::MeasureCeilingsRequest request;
  return Call(limits, [&](grpc::ClientContext* context, std::function<void(grpc::Status)> done) {
    stub_->async()->MeasureCeilings(context, &request, response, std::move(done));
  });
}

std::string WorkerLink::Where() const {
  const std::uint32_t phase = process_->page().phase.load();
  return phase == 0 ? std::string() : Cat(" in ", PhaseText(phase));
}

Death WorkerLink::Bury(CallEnd end, absl::Duration limit, const CallLimits& limits,
                       std::string_view device) {
  Death death = Autopsy(end, limit, limits);
  SetPhase(PhaseOf(process_->page().phase.load()), death.finding);
  death.finding.set_blame(BlameFor(death.finding, device));
  death.turn = process_->page().turn.load();
  death.suspects = process_->page().suspects.load();
  return death;
}

Death WorkerLink::Autopsy(CallEnd end, absl::Duration limit, const CallLimits& limits) {
  if (end == CallEnd::kDeviceLost) {
    process_->Kill();
    process_->Wait(EvenTime() + kReapDeadline);
    return DeathOf(v1::REASON_FAULT, v1::DEATH_CAUSE_DEVICE, "the device lost its context");
  }
  if (end == CallEnd::kTooLarge) {
    process_->Kill();
    process_->Wait(EvenTime() + kReapDeadline);
    return DeathOf(v1::REASON_CRASH, v1::DEATH_CAUSE_CHANNEL,
                   Cat("worker answered with more than ", kMostAnswerBytes >> 20, " MiB", Where()));
  }
  const absl::Time until = EvenTime() + kCauseDeadline;
  std::optional<ExitCause> cause = process_->Wait(absl::InfinitePast());
  while (!cause && process_->Exiting() && EvenTime() < until) {
    cause = process_->Wait(EvenTime() + kPoll);
  }
  const bool alive = !cause;
  if (alive) {
    process_->Kill();
    cause = process_->Wait(EvenTime() + kReapDeadline);
  }
  const std::string in = Where();
  if (end == CallEnd::kDeadline) {
    const std::string seconds = absl::StrFormat("%.4g s", absl::ToDoubleSeconds(limit));
    return DeathOf(v1::REASON_TIMEOUT, v1::DEATH_CAUSE_DEADLINE,
                   Cat("no answer within ", seconds, " (deadline)", in));
  }
  if (end == CallEnd::kCancelled) {
    return DeathOf(v1::REASON_CANCELLED, v1::DEATH_CAUSE_CANCELLED, Cat("cancelled", in));
  }
  if (end == CallEnd::kMemory) {
    return DeathOf(
        v1::REASON_MEMORY, v1::DEATH_CAUSE_MEMORY,
        Cat("worker held more than its ", limits.resident_cap_bytes >> 20, " MiB of memory", in));
  }
  if (alive) {
    return DeathOf(v1::REASON_CRASH, v1::DEATH_CAUSE_CHANNEL, Cat("worker closed its channel", in));
  }
  if (cause->last_words == LastWords::kOutOfMemory) {
    return DeathOf(v1::REASON_MEMORY, v1::DEATH_CAUSE_MEMORY, Cat("worker ran out of memory", in));
  }
  return DeathBy(*cause, in);
}

void WorkerLink::End() {
  process_->Kill();
  process_->Wait(EvenTime() + kReapDeadline);
}

Death WorkerLink::BuryIdle() {
  const std::optional<ExitCause> cause = process_->Wait(absl::InfinitePast());
  Death death =
      cause ? DeathBy(*cause, " between cases")
            : DeathOf(v1::REASON_CRASH, v1::DEATH_CAUSE_UNSPECIFIED, "worker ended between cases");
  death.restart_reason = "idle";
  return death;
}

v1::Blame BlameFor(const v1::Finding& death, std::string_view device) {
  const v1::Phase phase = death.phase_code();
  const v1::Blame of_code = phase == v1::PHASE_PREPARE ? v1::BLAME_LIBRARY : v1::BLAME_KERNEL;
  if (death.death().cause() == v1::DEATH_CAUSE_KILLED) return v1::BLAME_HOST;
  if (death.reason_code() == v1::REASON_CRASH) return of_code;
  if (death.reason_code() != v1::REASON_TIMEOUT)
    return MakeFinding(death.reason_code(), "").blame();
  switch (phase) {
    case v1::PHASE_PLAN:
    case v1::PHASE_RECHECK:
      return v1::BLAME_HOST;
    case v1::PHASE_FILL:
    case v1::PHASE_GUARDS:
    case v1::PHASE_REFERENCE:
    case v1::PHASE_COMPARE:
      // An accelerator does these by itself, and may hang at them. A CPU is the host.
      return RunsOnHost(device) ? v1::BLAME_HOST : v1::BLAME_DEVICE;
    default:
      return of_code;
  }
}

}  // namespace assay::server
