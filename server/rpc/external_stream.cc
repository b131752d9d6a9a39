#include "server/rpc/external_stream.h"

#include <utility>

#include "google/protobuf/util/time_util.h"
#include "kernels/ops/case.h"
#include "kernels/text/cat.h"
#include "server/base/finding.h"
#include "server/base/job_events.h"
#include "server/base/request_errors.h"
#include "server/rpc/call_desk.h"
#include "server/rpc/error_mapping.h"
#include "server/rpc/message_weight.h"

namespace assay::server {
namespace {

// Of a message behind the first, in memory: its part, and what is around that.
constexpr std::int64_t kMostPartInMemory = kMostExternalBytes + 4096;

absl::Status TooLarge(std::string_view part, std::size_t bytes) {
  return BadRequestError(
      {{std::string(part), Cat("must have at most ", kMostExternalBytes, " bytes, got ", bytes)}});
}

// Parses a message behind the first. Four of them are read ahead.
absl::Status Parse(const grpc::ByteBuffer& bytes, v1::ValidateExternalRequest& message) {
  switch (ParseAtMost(bytes, kMostPartInMemory, message)) {
    case Parsed::kTooLarge:
      return TooLarge("part", bytes.Length());
    case Parsed::kDamaged:
      return BadRequestError({NoMessage("part", message)});
    case Parsed::kWhole:
      break;
  }
  const bool chunk = message.has_chunk();
  const std::size_t size = chunk ? message.chunk().data().size() : message.ByteSizeLong();
  if (size <= static_cast<std::size_t>(kMostExternalBytes)) return absl::OkStatus();
  return TooLarge(chunk ? "chunk.data" : message.has_launched() ? "launched" : "part", size);
}

absl::Status NoJob(std::string_view got) {
  return BadRequestError({{"job", Cat("must be the first message of the stream, got ", got)}});
}

// A few bytes may hold millions of cases.
absl::Status CheckFirst(const v1::ValidateExternalRequest& first, int most) {
  if (!first.has_job()) {
    return NoJob(first.has_chunk()      ? "chunk"
                 : first.has_launched() ? "launched"
                                        : "a message without a part");
  }
  const int cases = first.job().spec().cases().cases_size();
  if (cases <= most) return absl::OkStatus();
  return BadRequestError({{"spec.cases", Cat("may hold at most ", most, " cases, got ", cases)}});
}

}  // namespace

class ExternalStream::Link final : public CallerLink {
 public:
  explicit Link(std::shared_ptr<ExternalStream> stream) : stream_(std::move(stream)) {}

  NextMessage Take(v1::ValidateExternalRequest* message) override { return stream_->Take(message); }
  void SetWake(std::function<void()> wake) override { stream_->SetWake(std::move(wake)); }
  bool Give(v1::ValidateExternalResponse* ask) override { return stream_->Give(ask); }
  std::optional<v1::Finding> failure() override { return stream_->failure(); }
  void Fail(v1::Finding why) override { stream_->Fail(std::move(why)); }
  absl::Duration launch_deadline() const override { return stream_->launch_deadline_; }

 private:
  const std::shared_ptr<ExternalStream> stream_;
};

std::shared_ptr<ExternalStream> ExternalStream::Start(Options options) {
  std::shared_ptr<ExternalStream> stream(new ExternalStream(std::move(options)));
  stream->self_ = stream;
  stream->Begin();
  return stream;
}

void ExternalStream::OnReadDone(bool ok) {
  if (!std::exchange(first_seen_, true)) return OnFirst(ok);
  v1::ValidateExternalRequest message;
  if (ok) {
    if (absl::Status s = Parse(incoming(), message); !s.ok()) {
      Conclude(s);  // before the job can end, which would be another end of the call
      Lose();
      GiveUp();
      ok = false;  // it is not taken, and nothing is read behind it
    }
  }
  Push(ok ? &message : nullptr);
}

// A plan of ten thousand cases takes a while.
void ExternalStream::OnFirst(bool ok) {
  if (!ok) {
    Push(nullptr);
    return Conclude(options_.context->IsCancelled() ? absl::CancelledError("the client has gone")
                                                    : NoJob("its end"));
  }
  absl::StatusOr<WaitingRequests::Request> kept = options_.keep(incoming());
  Pause();
  if (!kept.ok()) return Conclude(kept.status());
  const bool taken =
      options_.writes->TryRun([stream = shared_from_this(), kept = *std::move(kept)]() mutable {
        stream->Accept(std::exchange(kept, nullptr));
      });
  if (taken) return;
  Conclude(TooManyCallsWait());
}

void ExternalStream::Accept(WaitingRequests::Request kept) {
  const auto lost = [this] {
    const std::lock_guard lock(state_mutex_);
    return lost_;
  };
  if (lost()) return;  // and so the call has ended
  v1::ValidateExternalRequest first;
  absl::Status status = options_.parse(*kept, first);
  kept.reset();
  if (status.ok()) status = CheckFirst(first, options_.jobs->options().max_cases);
  if (status.ok()) status = MakeJob(first.job());
  if (!status.ok()) return Conclude(status);
  if (lost()) Lose();  // it went while the job was made
  Begin();             // reads on
  AskPump();
}

absl::Status ExternalStream::MakeJob(const v1::ExternalJob& asked) {
  if (asked.has_launch_deadline()) launch_deadline_ = ToDuration(asked.launch_deadline());
  absl::StatusOr<v1::Job> job = options_.make(asked, std::make_shared<Link>(shared_from_this()));
  if (!job.ok()) return job.status();
  v1::ValidateExternalResponse accepted;
  *accepted.mutable_job() = *job;
  const std::weak_ptr<ExternalStream> weak = weak_from_this();
  absl::StatusOr<std::unique_ptr<JobWatch>> watch = options_.jobs->Watch(job->name(), 0, [weak] {
    if (const auto stream = weak.lock()) stream->AskPump();
  });
  absl::Status watched = watch.status();
  if (watched.ok()) {
    watch_ = *std::move(watch);
    Offer(&accepted);  // the first message: there is room
  }
  {
    const std::lock_guard lock(state_mutex_);
    job_ = job->name();
  }
  if (!watched.ok()) Lose();
  Wake();
  return watched;
}

void ExternalStream::AskPump() {
  options_.pump->Run([weak = weak_from_this()] {
    if (const auto stream = weak.lock()) stream->PumpEvents();
  });
}

void ExternalStream::PumpEvents() {
  if (watch_ == nullptr) return;
  for (;;) {
    if (waiting_) {
      if (!Offer(&*waiting_)) {
        event_waits_ = true;  // OnRoom asks again, unless there is room by now
        if (!Offer(&*waiting_)) return;
        event_waits_ = false;
      }
      waiting_.reset();
    }
    v1::JobEvent event;
    const absl::StatusOr<JobWatch::Next> next = watch_->Read(&event);
    if (!next.ok()) return Conclude(next.status());
    if (*next == JobWatch::Next::kWait) return;
    if (*next == JobWatch::Next::kEnd) return Conclude(absl::OkStatus());
    *waiting_.emplace().mutable_event() = std::move(event);
  }
}

void ExternalStream::OnRoom() {
  if (event_waits_.exchange(false)) AskPump();
}

// The job may ask before its name has been sent.
bool ExternalStream::Give(v1::ValidateExternalResponse* ask) {
  {
    const std::lock_guard lock(state_mutex_);
    if (failure_) return true;
    if (job_.empty()) return false;
  }
  return Offer(ask);
}

std::optional<v1::Finding> ExternalStream::failure() {
  const std::lock_guard lock(state_mutex_);
  return failure_;
}

void ExternalStream::Fail(v1::Finding why) {
  const std::lock_guard lock(state_mutex_);
  if (!failure_) failure_ = std::move(why);
}

// The caller has gone: the job is cancelled.
void ExternalStream::Lose() {
  Fail(MakeFinding(v1::REASON_CANCELLED, "the caller has gone before its function was validated"));
  std::string job;
  bool dropped = false;
  {
    const std::lock_guard lock(state_mutex_);
    lost_ = true;
    job = job_;
    dropped = dropped_;
  }
  if (job.empty()) return;
  const std::string_view why = dropped ? "the caller took no data for too long (--watch-stall)"
                                       : "the caller has gone before its function was validated";
  options_.pump->Run(
      [jobs = options_.jobs, job, why] { jobs->Cancel(job, why).status().IgnoreError(); });
}

void ExternalStream::Abort(const absl::Status& status) {
  Lose();
  GiveUp();
  Conclude(status);
}

std::optional<std::string> ExternalStream::DropIfStalledSince(absl::Time time) {
  if (!StalledSince(time)) return std::nullopt;
  const std::lock_guard lock(state_mutex_);
  if (done_) return std::nullopt;
  if (std::exchange(dropped_, true)) return options_.context->peer();
  options_.context->TryCancel();  // OnCancel does the rest, on a thread of gRPC's
  return std::nullopt;
}

void ExternalStream::Conclude(const absl::Status& status) {
  const grpc::Status answer = ToGrpcStatus(status);
  {
    const std::lock_guard lock(state_mutex_);
    status_ = answer;
  }
  EndAfterWrites(answer);
}

void ExternalStream::OnCancel() {
  Lose();
  GiveUp();
  EndAfterWrites(grpc::Status::CANCELLED);
}

void ExternalStream::OnDone() {
  std::shared_ptr<ExternalStream> self;
  grpc::Status status;
  {
    const std::lock_guard lock(state_mutex_);
    done_ = true;
    self = std::move(self_);
    status = lost_ && status_.ok() ? grpc::Status::CANCELLED : status_;
  }
  options_.ended(status);
}

}  // namespace assay::server
