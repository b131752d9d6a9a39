#include "server/pass/job_watch.h"

#include <algorithm>
#include <utility>

namespace assay::server {
namespace {

constexpr std::int64_t kPageEvents = 64;

}  // namespace

void WatchHub::Committed(std::int64_t sequence, std::shared_ptr<const v1::JobEvent> last) {
  const std::lock_guard guard(mutex_);
  if (sequence > committed_) {
    committed_ = sequence;
    last_ = std::move(last);
  }
  WakeLocked();
}

void WatchHub::Progress(v1::JobEvent event) {
  const std::lock_guard guard(mutex_);
  progress_ = std::move(event);
  ++progress_version_;
  WakeLocked();
}

void WatchHub::End(std::int64_t sequence) {
  const std::lock_guard guard(mutex_);
  committed_ = sequence;
  last_ = nullptr;
  closed_ = true;
  WakeLocked();
}

void WatchHub::Close(const absl::Status& status) {
  const std::lock_guard guard(mutex_);
  if (closed_) return;
  closed_ = true;
  end_ = status;
  WakeLocked();
}

std::int64_t WatchHub::committed() const {
  const std::lock_guard guard(mutex_);
  return committed_;
}

// Under the lock, so that a watch that is being destroyed is not called after.
void WatchHub::WakeLocked() {
  for (StoredWatch* watch : watches_) {
    if (!watch->waits_) continue;
    watch->waits_ = false;
    watch->wake_();
  }
}

StoredWatch::StoredWatch(Store& store, std::string name, std::int64_t after,
                         std::shared_ptr<WatchHub> hub, std::function<void()> wake)
    : store_(store),
      name_(std::move(name)),
      hub_(std::move(hub)),
      wake_(std::move(wake)),
      after_(after) {
  const std::lock_guard guard(hub_->mutex_);
  hub_->watches_.insert(this);
}

StoredWatch::~StoredWatch() {
  const std::lock_guard guard(hub_->mutex_);
  hub_->watches_.erase(this);
}

absl::StatusOr<JobWatch::Next> StoredWatch::Read(v1::JobEvent* event) {
  while (page_.empty()) {
    // No further than was announced: the events of a commit are told in its order.
    std::int64_t announced = 0;
    std::shared_ptr<const v1::JobEvent> last;
    {
      const std::lock_guard guard(hub_->mutex_);
      if (after_ >= hub_->committed_) {
        if (hub_->closed_) {
          if (!hub_->end_.ok()) return hub_->end_;
          return Next::kEnd;
        }
        if (progress_given_ != hub_->progress_version_) {
          progress_given_ = hub_->progress_version_;
          *event = hub_->progress_;
          return Next::kEvent;
        }
        waits_ = true;
        return Next::kWait;
      }
      announced = hub_->committed_ - after_;
      if (announced == 1) last = hub_->last_;
    }
    if (last != nullptr) {
      ++after_;
      *event = *last;
      return Next::kEvent;
    }
    absl::StatusOr<std::vector<v1::JobEvent>> page =
        store_.Events(name_, after_, static_cast<int>(std::min(announced, kPageEvents)));
    if (!page.ok()) return page.status();
    if (page->empty()) return absl::NotFoundError("the job was deleted while it was watched");
    after_ = page->back().sequence();
    page_.assign(std::make_move_iterator(page->begin()), std::make_move_iterator(page->end()));
  }
  *event = std::move(page_.front());
  page_.pop_front();
  return Next::kEvent;
}

}  // namespace assay::server
