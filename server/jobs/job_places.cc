#include "server/jobs/job_places.h"

#include "absl/time/time.h"
#include "server/base/error_info.h"
#include "server/base/limit.h"

namespace assay::server {
namespace {

absl::Status Stopping() {
  return WithRetry(WithReason(absl::UnavailableError("assayd is stopping and takes no new jobs"),
                              v1::ERROR_REASON_STOPPING),
                   absl::Seconds(10));
}

}  // namespace

absl::Status JobPlaces::Open() const {
  const std::lock_guard guard(mutex_);
  return closed_ ? Stopping() : absl::OkStatus();
}

absl::StatusOr<std::int64_t> JobPlaces::Take() {
  {
    const std::lock_guard guard(mutex_);
    if (closed_) return Stopping();
    if (waiting_ < most_) {
      ++waiting_;
      ++arriving_;
      return next_++;
    }
  }
  if (metrics_ != nullptr) metrics_->LimitReached(Limit::kWaitingJobs);
  return LimitReached({.limit = Limit::kWaitingJobs, .value = most_, .again = absl::Seconds(5)});
}

void JobPlaces::Arrived() {
  const std::lock_guard guard(mutex_);
  if (--arriving_ == 0) arrived_.notify_all();
}

std::int64_t JobPlaces::TakeUp() {
  const std::lock_guard guard(mutex_);
  ++waiting_;
  return next_++;
}

void JobPlaces::Wait() {
  const std::lock_guard guard(mutex_);
  ++waiting_;
}

void JobPlaces::Leave() {
  const std::lock_guard guard(mutex_);
  --waiting_;
}

void JobPlaces::Close() {
  const std::lock_guard guard(mutex_);
  closed_ = true;
}

void JobPlaces::WaitForArriving() {
  std::unique_lock guard(mutex_);
  arrived_.wait(guard, [this] { return arriving_ == 0; });
}

}  // namespace assay::server
