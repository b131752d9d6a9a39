#include "server/worker/ferry.h"

#include <algorithm>
#include <utility>

#include "kernels/numerics/dtype.h"
#include "kernels/text/cat.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"

namespace assay::server {
namespace {

// The slowest connection that a launch's deadline allows for.
constexpr double kBytesPerSecond = 10e6;
// How long a worker may take to end its case when it gets no more answers.
constexpr absl::Duration kToEnd = absl::Seconds(10);
// Messages of the worker that are read ahead.
constexpr std::size_t kAhead = 4;

std::int64_t CountOf(const v1::ExternalOperand& operand) {
  std::int64_t count = 1;
  for (const std::int64_t extent : operand.tensor().shape()) count *= extent;
  return count;
}

std::int64_t BytesOf(const v1::ExternalOperand& operand) {
  return StorageBytes(static_cast<DType>(operand.tensor().dtype()), CountOf(operand));
}

}  // namespace

Ferry::Ferry(std::function<void()> ring, CallerLink& caller,
             const worker::v1::RunCaseRequest& request, worker::v1::RunCaseResponse* response)
    : ring_(std::move(ring)), caller_(caller), response_(response) {
  *outgoing_.mutable_run() = request;
}

void Ferry::Begin(std::function<void(grpc::Status)> done) {
  done_ = std::move(done);
  writing_ = true;
  AddHold();  // until nothing more will be read or written
  StartWrite(&outgoing_);
  {
    const std::lock_guard lock(mutex_);
    ReadLocked();
  }
  StartCall();
}

void Ferry::Step(absl::Time* deadline, bool give_up) {
  if (closed_) return;
  if (give_up) return Close();
  while (TakeFromWorker(deadline)) {
  }
  if (closed_) return;
  if (over_) return Close();  // it came to no end: TakeFromWorker takes the end first
  if (deaf_) no_answers_ = true;
  if (caller_.failure()) StopAnswers();
  TakeFromCaller(deadline);
  CheckTime(deadline);
  if (no_answers_ || caller_.failure()) EndTurn(deadline);
}

// What stands before the end is not needed any more: the worker waits for no answer.
bool Ferry::TakeFromWorker(absl::Time* deadline) {
  worker::v1::RunElsewhereResponse* first = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (came_.empty()) return false;
    // Only this thread takes it away.
    first = came_.back().has_end() ? &came_.back() : &came_.front();
  }
  if (first->has_end()) {
    *response_ = std::move(*first->mutable_end());
    Close();
    return false;
  }
  v1::ValidateExternalResponse& ask = *first->mutable_ask();
  const bool launch = ask.has_launch();
  const bool reference = ask.launch().reference();
  const bool turn = launch || ask.has_chunk();
  if (turn) BeginTurn(deadline);
  if (ask.has_kernel()) {
    bytes_ = BytesOf(ask.kernel().output());
    for (const v1::ExternalOperand& input : ask.kernel().inputs()) bytes_ += BytesOf(input);
    if (!ask.kernel().spec().reference().empty()) {  // and its magnitudes
      bytes_ += 2 * StorageBytes(DType::kF64, CountOf(ask.kernel().output()));
    }
  }
  if (!caller_.Give(&ask)) {
    BeginTurn(deadline);
    return false;
  }
  if (launch) of_reference_ = reference;
  owes_ = owes_ || launch;
  if (!turn && !owes_) EndTurn(deadline);
  const std::lock_guard lock(mutex_);
  came_.pop_front();
  ReadLocked();
  return true;
}

void Ferry::ReadLocked() {
  if (reading_ || over_ || came_.size() >= kAhead) return;
  if (!came_.empty() && came_.back().has_end()) return;  // nothing comes behind it
  reading_ = true;
  StartRead(&incoming_);
}

void Ferry::TakeFromCaller(absl::Time* deadline) {
  if (writing_ || no_answers_) return;
  switch (caller_.Take(outgoing_.mutable_answer())) {
    case NextMessage::kPiece:
      if (outgoing_.answer().has_launched()) {
        owes_ = false;
        EndTurn(deadline);
      }
      writing_ = true;
      StartWrite(&outgoing_);
      return;
    case NextMessage::kWait:
      return;
    case NextMessage::kEnd:
      if (!asked_) return;  // it owes no answer
      [[fallthrough]];
    case NextMessage::kGone:
      FailCaller(MakeFinding(v1::REASON_CANCELLED, "the caller has gone"), deadline);
  }
}

void Ferry::CheckTime(absl::Time* deadline) {
  if (!asked_ || no_answers_) return;
  // The bytes may have to go there and back.
  const absl::Duration limit =
      caller_.launch_deadline() + 2 * absl::Seconds(static_cast<double>(bytes_) / kBytesPerSecond);
  if (EvenTime() < asked_at_ + limit) return;
  v1::Finding finding = MakeFinding(
      v1::REASON_TIMEOUT,
      Cat("the caller's ", of_reference_ ? "reference" : "function", " gave no output within ",
          absl::FormatDuration(absl::Trunc(limit, absl::Milliseconds(1))), " (launch_deadline)"));
  finding.set_blame(v1::BLAME_CALLER);
  SetPhase(v1::PHASE_KERNEL, finding);
  FailCaller(std::move(finding), deadline);
}

void Ferry::BeginTurn(absl::Time* deadline) {
  if (std::exchange(asked_, true)) return;
  asked_at_ = EvenTime();
  left_ = *deadline - asked_at_;
  *deadline = absl::InfiniteFuture();
}

void Ferry::EndTurn(absl::Time* deadline) {
  if (std::exchange(asked_, false)) *deadline = EvenTime() + left_;
}

// The worker gets time to end its case, once.
void Ferry::FailCaller(v1::Finding why, absl::Time* deadline) {
  const bool first = !caller_.failure().has_value();
  caller_.Fail(std::move(why));
  EndTurn(deadline);
  if (first) *deadline = std::max(*deadline, EvenTime() + kToEnd);
  StopAnswers();
}

void Ferry::StopAnswers() {
  if (writing_ || std::exchange(no_answers_, true)) return;
  StartWritesDone();
}

void Ferry::Close() {
  closed_ = true;
  RemoveHold();
}

void Ferry::OnReadDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    if (!ok) over_ = true;
    if (ok) came_.push_back(std::move(incoming_));
    incoming_.Clear();
    if (ok) ReadLocked();
  }
  ring_();
}

void Ferry::OnWriteDone(bool ok) {
  if (!ok) deaf_ = true;
  writing_ = false;
  ring_();
}

}  // namespace assay::server
