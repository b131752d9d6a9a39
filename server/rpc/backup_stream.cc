#include "server/rpc/backup_stream.h"

#include <chrono>
#include <utility>

#include "server/base/limit.h"
#include "server/rpc/error_mapping.h"

namespace assay::server {
namespace {

constexpr std::chrono::seconds kCutAfter(5);

}  // namespace

std::shared_ptr<BackupStream> BackupStream::Start(Options options) {
  std::shared_ptr<BackupStream> stream(new BackupStream(std::move(options)));
  stream->self_ = stream;
  if (!stream->options_.thread->TryRun([stream] { stream->Run(); })) {
    stream->End(LimitReached(
        {.limit = Limit::kBackups, .value = kMostBackups, .again = absl::Seconds(30)}));
  }
  return stream;
}

void BackupStream::Abort(const absl::Status& status) {
  {
    const std::lock_guard guard(mutex_);
    if (!abort_) abort_ = status;
  }
  changed_.notify_all();
}

void BackupStream::Run() {
  {
    std::unique_lock guard(mutex_);
    if (abort_) {
      const absl::Status status = *abort_;
      guard.unlock();
      return End(status);
    }
  }
  End(options_.store->Backup(
      [this](std::string_view piece, std::int64_t bytes) { return Send(piece, bytes); }));
}

// Returns when gRPC has taken the piece or will never take it: a call may not end while it writes.
absl::Status BackupStream::Send(std::string_view piece, std::int64_t bytes) {
  std::unique_lock guard(mutex_);
  if (abort_) return *abort_;
  piece_.set_data(piece.data(), piece.size());
  piece_.set_total_bytes(bytes);
  writing_ = true;
  guard.unlock();
  StartWrite(&piece_);
  guard.lock();
  const bool done = changed_.wait_for(guard, absl::ToChronoMilliseconds(options_.patience),
                                      [this] { return !writing_ || abort_; });
  if (!done) {
    abort_ = absl::DeadlineExceededError("the client did not take the copy of the store");
  }
  if (writing_) {
    guard.unlock();
    options_.context->TryCancel();
    guard.lock();
    // gRPC waits for a connection that stands still; it is cut then.
    const auto taken = [this] { return !writing_; };
    if (!changed_.wait_for(guard, kCutAfter, taken) && options_.cut) {
      guard.unlock();
      options_.cut();
      guard.lock();
    }
    changed_.wait(guard, taken);
  }
  return abort_.value_or(absl::OkStatus());
}

void BackupStream::End(const absl::Status& status) {
  {
    const std::lock_guard guard(mutex_);
    status_ = ToGrpcStatus(status);
  }
  Finish(status_);
}

void BackupStream::OnWriteDone(bool ok) {
  {
    const std::lock_guard guard(mutex_);
    writing_ = false;
    if (!ok && !abort_) abort_ = absl::CancelledError("the client has left");
  }
  changed_.notify_all();
}

void BackupStream::OnCancel() { Abort(absl::CancelledError("the client has left")); }

void BackupStream::OnDone() {
  const std::shared_ptr<BackupStream> self = std::move(self_);
  options_.ended(status_);
}

}  // namespace assay::server
