// Lets watchers follow a job. The recorder says how far the store has come, and each watcher reads
// the store at its own pace. So a slow watcher does not hold up the device, and holds one bounded
// page. A watcher that lacks nothing but the newest result gets it from memory.
#ifndef ASSAY_SERVER_PASS_JOB_WATCH_H_
#define ASSAY_SERVER_PASS_JOB_WATCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/job.pb.h"
#include "server/store/store.h"

namespace assay::server {

// A job's events, one after the other; owned by one watcher, used by one thread at
// a time. Holds a bounded piece of the history, whatever the watcher's pace.
class JobWatch {
 public:
  enum class Next {
    kEvent,  // *event is the next one
    kWait,   // nothing now; `wake` will be called once when there may be more
    kEnd,    // the job has ended and all was said
  };
  virtual ~JobWatch() = default;
  // UNAVAILABLE where the daemon stops before the job ends; RESOURCE_EXHAUSTED
  // where its events can no longer be written.
  virtual absl::StatusOr<Next> Read(v1::JobEvent* event) = 0;
  // Whether the next Read has an event at once.
  virtual bool HasNext() const = 0;
};

class StoredWatch;

// Where a job's watchers hear that there is more. Thread-safe.
class WatchHub {
 public:
  explicit WatchHub(std::int64_t committed) : committed_(committed) {}

  // Events up to `sequence` are in the store. `last` is the event of that number, if it is at hand:
  // watchers who have all others need not read the store.
  void Committed(std::int64_t sequence, std::shared_ptr<const v1::JobEvent> last = nullptr);
  // Replaces the progress that watchers who are up to date get.
  void Progress(v1::JobEvent event);
  // The job has ended, and `sequence` is its last event: no progress comes after it. The status of
  // an earlier Close stays.
  void End(std::int64_t sequence);
  // Nothing more will come, and the job has not ended: watchers get `status`.
  void Close(const absl::Status& status);

  std::int64_t committed() const;

 private:
  friend class StoredWatch;
  void WakeLocked();

  mutable std::mutex mutex_;
  std::int64_t committed_;
  std::shared_ptr<const v1::JobEvent> last_;  // the event committed_, or null
  bool closed_ = false;
  absl::Status end_;  // OK: the job has ended
  v1::JobEvent progress_;
  std::int64_t progress_version_ = 0;
  std::set<StoredWatch*> watches_;
};

// A watch that reads the store and waits at the hub.
class StoredWatch final : public JobWatch {
 public:
  StoredWatch(Store& store, std::string name, std::int64_t after, std::shared_ptr<WatchHub> hub,
              std::function<void()> wake);
  ~StoredWatch() override;

  absl::StatusOr<Next> Read(v1::JobEvent* event) override;
  bool HasNext() const override { return !page_.empty(); }

 private:
  friend class WatchHub;

  Store& store_;
  const std::string name_;
  const std::shared_ptr<WatchHub> hub_;
  const std::function<void()> wake_;
  std::int64_t after_;               // the last event read
  std::deque<v1::JobEvent> page_;    // read and not yet given out
  std::int64_t progress_given_ = 0;  // the hub's version
  bool waits_ = false;               // hub_->mutex_: wants to be woken
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_JOB_WATCH_H_
