// WriteQueue is the store's one writer. Its thread takes the writes that have gathered and commits
// them as one transaction, in the order of submission.
//
// When there is no room (the disk or the store's largest size), the results that were computed are
// not lost. Their updates are held, in order, and tried again every second and after each deletion.
// No result is taken beyond kMostHeld of them: who submits one waits, so the devices pause. What is
// new (a job, a baseline) is refused at once with RESOURCE_EXHAUSTED. Deletions are tried, as they
// make room.
//
// Thread-safe.
#ifndef ASSAY_SERVER_STORE_WRITE_QUEUE_H_
#define ASSAY_SERVER_STORE_WRITE_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store.h"
#include "server/store/store_file.h"
#include "server/store/store_writer.h"

namespace assay::server {

struct DeletedJob {
  std::string name;
};
struct DeletedBaseline {
  std::string name;
};
// Free pages of the file that are given back to the disk.
struct FreedPages {
  std::int64_t count = 0;
};
// What is new waits with its caller, so a pointer is enough.
using Change = std::variant<const NewJob*, DeletedJob, JobUpdate, const v1::Baseline*,
                            DeletedBaseline, FreedPages>;

class WriteQueue {
 public:
  // `room`: space that is kept for the case that the disk is full; used by the writer alone.
  // `state`: what the opening has found.
  WriteQueue(std::unique_ptr<StoreWriter> writer, std::unique_ptr<Room> room, StoreState state);
  ~WriteQueue();  // writes what was submitted; what is held and still has no room is refused

  // Submits and waits until it is durable or refused. `queued` is called in between, on the
  // caller's thread. It is not called for what is refused at once.
  absl::Status Wait(
      Change what, absl::FunctionRef<void()> queued = [] {});

  // Waits only while the queue is full.
  void Submit(JobUpdate update, Store::Done done);

  // Refuses what is held and holds nothing from now on.
  void HoldNoMore();

  // Called at once and after each change; on the writer's thread, later.
  void TellOfState(std::function<void(const StoreState&)> told);

  // The store was found damaged; said in the state from now on.
  void Damaged();

 private:
  // A write that waits, and who wants to know.
  struct Write {
    Change what;
    Store::Done done;
  };

  // `queued` is called before the writer is woken: if the writer sleeps, what `queued` submits is
  // in the same commit.
  void Enqueue(Write write, absl::FunctionRef<void()> queued);
  void Loop();
  void Commit(std::deque<Write> writes);
  // Writes what is held, as far as there is room.
  void TryHeld();
  void Hold(Write write);
  void SetFull(const absl::Status& why);
  bool Holds();
  void SayState();
  // One transaction of writes[begin, end). Returns the failure of the transaction itself; then
  // nothing of it is kept.
  absl::Status Transaction(const std::deque<Write>& writes, std::size_t begin, std::size_t end,
                           std::vector<absl::StatusOr<std::int64_t>>& outcomes);
  absl::Status One(std::deque<Write>& writes, std::size_t n,
                   std::vector<absl::StatusOr<std::int64_t>>& outcomes);
  absl::StatusOr<std::int64_t> Apply(const Write& write);

  const std::unique_ptr<StoreWriter> writer_;  // writer thread
  const std::unique_ptr<Room> room_;           // writer thread
  std::deque<Write> held_;                     // writer thread; updates, in order

  std::mutex mutex_;
  std::condition_variable changed_;  // any of the below
  std::condition_variable drained_;  // the queue has room
  std::deque<Write> queue_;
  std::size_t held_count_ = 0;
  std::string full_;     // why there is no room; empty: there is
  bool urgent_ = false;  // a write of the queue cannot wait
  bool holds_ = true;    // false: what has no room is refused
  bool stopping_ = false;
  StoreState state_;

  std::mutex told_mutex_;  // taken before mutex_
  std::function<void(const StoreState&)> told_;

  std::thread thread_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_WRITE_QUEUE_H_
