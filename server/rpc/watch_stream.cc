#include "server/rpc/watch_stream.h"

#include <grpc/grpc.h>

#include <utility>

#include "absl/time/time.h"
#include "server/base/even_time.h"
#include "server/rpc/error_mapping.h"
#include "server/rpc/request_parsing.h"

namespace assay::server {

std::shared_ptr<WatchStream> WatchStream::Start(JobManager& jobs, TaskThread& pump,
                                                grpc::CallbackServerContext& context,
                                                const v1::WatchJobRequest& request, Ended ended) {
  std::shared_ptr<WatchStream> stream(new WatchStream(pump, context, std::move(ended)));
  stream->self_ = stream;
  const std::weak_ptr<WatchStream> weak = stream;
  const auto wake = [&pump, weak] {
    pump.Run([weak] {
      if (const std::shared_ptr<WatchStream> woken = weak.lock()) woken->Pump();
    });
  };
  const absl::Status bad_name = CheckJobName("name", request.name());
  absl::StatusOr<std::unique_ptr<JobWatch>> watch =
      bad_name.ok() ? jobs.Watch(request.name(), request.after_sequence(), wake) : bad_name;
  const std::lock_guard guard(stream->mutex_);
  if (!watch.ok()) {
    stream->FinishLocked(ToGrpcStatus(watch.status()));
  } else {
    stream->watch_ = *std::move(watch);
    stream->PumpLocked();
  }
  return stream;
}

void WatchStream::Abort(const absl::Status& status) {
  const std::lock_guard guard(mutex_);
  abort_ = ToGrpcStatus(status);
  if (!writing_) FinishLocked(*abort_);
}

std::optional<std::string> WatchStream::DropIfStalledSince(absl::Time time) {
  const std::lock_guard guard(mutex_);
  if (!writing_ || write_began_ > time || context_ == nullptr) return std::nullopt;
  write_began_ = EvenTime();  // from here on, the end of the call is to leave in the same time
  if (dropped_ || abort_) return context_->peer();
  dropped_ = true;
  abort_ = grpc::Status(grpc::StatusCode::UNAVAILABLE,
                        "the watcher took no event for too long (--watch-stall); come again after "
                        "the last event that came");
  // Finish would wait for the event, too. This ends the call at once, and details cannot go along.
  grpc_call_cancel_with_status(context_->c_call(), GRPC_STATUS_UNAVAILABLE,
                               abort_->error_message().c_str(), nullptr);
  return std::nullopt;
}

void WatchStream::Pump() {
  const std::lock_guard guard(mutex_);
  PumpLocked();
}

void WatchStream::PumpLocked() {
  if (writing_ || finished_) return;
  if (abort_) return FinishLocked(*abort_);
  const absl::StatusOr<JobWatch::Next> next = watch_->Read(&event_);
  if (!next.ok()) return FinishLocked(ToGrpcStatus(next.status()));
  switch (*next) {
    case JobWatch::Next::kEvent:
      writing_ = true;
      write_began_ = EvenTime();
      // Events that were read together leave together. The first write carries the call's metadata
      // and would not end before it has left.
      StartWrite(&event_, begun_ && watch_->HasNext() ? grpc::WriteOptions().set_buffer_hint()
                                                      : grpc::WriteOptions());
      begun_ = true;
      return;
    case JobWatch::Next::kWait:
      return;  // the watch wakes us
    case JobWatch::Next::kEnd:
      return FinishLocked(grpc::Status::OK);
  }
}

void WatchStream::FinishLocked(const grpc::Status& status) {
  if (finished_) return;
  finished_ = true;
  status_ = status;
  Finish(status);
}

void WatchStream::OnWriteDone(bool ok) {
  const std::lock_guard guard(mutex_);
  writing_ = false;
  if (!ok) return FinishLocked(abort_.value_or(grpc::Status::CANCELLED));
  PumpLocked();
}

void WatchStream::OnCancel() {
  const std::lock_guard guard(mutex_);
  if (!abort_) abort_ = grpc::Status::CANCELLED;
  if (!writing_) FinishLocked(*abort_);
}

void WatchStream::OnDone() {
  std::shared_ptr<WatchStream> self;
  grpc::Status status;
  {
    const std::lock_guard guard(mutex_);
    watch_.reset();
    context_ = nullptr;
    self = std::move(self_);
    status = status_;
  }
  ended_(status);
}

}  // namespace assay::server
