#include "server/store/write_queue.h"

#include <chrono>
#include <optional>
#include <utility>

#include "kernels/text/cat.h"
#include "server/base/log.h"
#include "server/store/baseline_table.h"

namespace assay::server {
namespace {

// Writes that may wait: enough to fill a commit, few enough that a disk that
// stalls is felt by the runners and not by the memory.
constexpr std::size_t kQueueLimit = 64;

// Results are taken only while fewer updates are held and queued; other updates always are.
constexpr std::size_t kMostHeld = 256;

// Updates that can wait for the next write wait no longer than this.
constexpr std::chrono::milliseconds kMostWait{5};

// How often it is tried whether there is room again.
constexpr std::chrono::seconds kTryAgain{1};

// Failures that say nothing about the next write of the same commit.
bool OwnFault(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsAlreadyExists(status);
}

bool IsNew(const Change& what) {
  return std::holds_alternative<const NewJob*>(what) ||
         std::holds_alternative<const v1::Baseline*>(what);
}

bool MakesRoom(const Change& what) {
  return std::holds_alternative<DeletedJob>(what) ||
         std::holds_alternative<DeletedBaseline>(what) || std::holds_alternative<FreedPages>(what);
}

// Other updates are few: some for each job. Who writes them must not wait for room, as a daemon
// that starts does so before anybody can make any.
bool HasResult(const JobUpdate& update) {
  for (const v1::JobEvent& event : update.events) {
    if (event.has_case_result()) return true;
  }
  return false;
}

}  // namespace

WriteQueue::WriteQueue(std::unique_ptr<StoreWriter> writer, std::unique_ptr<Room> room,
                       StoreState state)
    : writer_(std::move(writer)),
      room_(std::move(room)),
      full_(state.full),
      state_(std::move(state)),
      thread_([this] { Loop(); }) {}

WriteQueue::~WriteQueue() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    holds_ = false;
  }
  changed_.notify_all();
  drained_.notify_all();
  thread_.join();
}

void WriteQueue::Enqueue(Write write, absl::FunctionRef<void()> queued) {
  std::unique_lock guard(mutex_);
  const auto* update = std::get_if<JobUpdate>(&write.what);
  const bool result = update != nullptr && HasResult(*update);
  drained_.wait(guard, [&] {
    return queue_.size() < kQueueLimit && (!result || queue_.size() + held_count_ < kMostHeld);
  });
  if (update == nullptr || !update->can_wait || queue_.size() + 1 == kQueueLimit) urgent_ = true;
  queue_.push_back(std::move(write));
  const bool full = queue_.size() == kQueueLimit;
  guard.unlock();
  if (full) changed_.notify_all();  // what `queued` submits waits for room
  queued();
  changed_.notify_all();
}

void WriteQueue::Submit(JobUpdate update, Store::Done done) {
  Enqueue(Write{std::move(update), std::move(done)}, [] {});
}

absl::Status WriteQueue::Wait(Change what, absl::FunctionRef<void()> queued) {
  if (IsNew(what)) {
    const std::lock_guard guard(mutex_);
    if (!full_.empty()) return absl::ResourceExhaustedError(full_);
  }
  std::mutex mutex;
  std::condition_variable told;
  std::optional<absl::Status> answer;
  const auto done = [&](const absl::Status& status, std::int64_t) {
    const std::lock_guard guard(mutex);
    answer = status;
    told.notify_one();
  };
  Enqueue(Write{std::move(what), done}, queued);
  std::unique_lock guard(mutex);
  told.wait(guard, [&] { return answer.has_value(); });
  return *answer;
}

void WriteQueue::HoldNoMore() {
  {
    const std::lock_guard guard(mutex_);
    holds_ = false;
  }
  changed_.notify_all();
}

void WriteQueue::TellOfState(std::function<void(const StoreState&)> told) {
  {
    const std::lock_guard guard(told_mutex_);
    told_ = std::move(told);
  }
  SayState();
}

void WriteQueue::Damaged() {
  {
    const std::lock_guard guard(mutex_);
    state_.damaged = true;
  }
  SayState();
}

void WriteQueue::SayState() {
  const std::lock_guard told_guard(told_mutex_);
  if (!told_) return;
  StoreState state;
  {
    const std::lock_guard guard(mutex_);
    state_.full = full_;
    state_.held = static_cast<int>(held_count_);
    state = state_;
  }
  told_(state);
}

void WriteQueue::Loop() {
  using Clock = std::chrono::steady_clock;
  std::deque<Write> batch;
  Clock::time_point tried = Clock::now();
  while (true) {
    bool try_held = false;
    {
      std::unique_lock guard(mutex_);
      const auto something = [this] {
        return stopping_ || !queue_.empty() || (!holds_ && held_count_ > 0);
      };
      if (full_.empty()) {
        changed_.wait(guard, something);
        tried = Clock::now();
      } else {
        // Writes that keep coming do not put off the next try.
        changed_.wait_until(guard, tried + kTryAgain, something);
        try_held = Clock::now() - tried >= kTryAgain || (!holds_ && held_count_ > 0);
      }
      if (queue_.empty() && stopping_ && held_count_ == 0) return;
      if (!queue_.empty()) {
        changed_.wait_for(guard, kMostWait, [this] { return stopping_ || urgent_; });
      }
      batch.swap(queue_);
      urgent_ = false;
    }
    drained_.notify_all();
    bool made_room = false;
    for (const Write& write : batch) made_room = made_room || MakesRoom(write.what);
    Commit(std::exchange(batch, {}));
    if (!try_held && (!made_room || held_.empty())) continue;
    tried = Clock::now();
    TryHeld();
  }
}

absl::StatusOr<std::int64_t> WriteQueue::Apply(const Write& write) {
  Database& database = writer_->database();
  if (absl::Status s = writer_->SetMark(); !s.ok()) return s;
  absl::StatusOr<std::int64_t> outcome = 0;
  const auto told = [&outcome](const absl::Status& status) {
    if (!status.ok()) outcome = status;
  };
  if (const auto* job = std::get_if<const NewJob*>(&write.what)) {
    told(writer_->Insert(**job));
  } else if (const auto* gone = std::get_if<DeletedJob>(&write.what)) {
    told(writer_->Delete(gone->name));
  } else if (const auto* baseline = std::get_if<const v1::Baseline*>(&write.what)) {
    told(InsertBaseline(database, **baseline));
  } else if (const auto* old = std::get_if<DeletedBaseline>(&write.what)) {
    told(DeleteBaseline(database, old->name));
  } else if (const auto* freed = std::get_if<FreedPages>(&write.what)) {
    told(database.Exec(Cat("PRAGMA incremental_vacuum(", freed->count, ")").c_str()));
  } else {
    outcome = writer_->Apply(std::get<JobUpdate>(write.what));
  }
  // After a full disk SQLite may have rolled back by itself; the savepoint is gone then.
  if (!outcome.ok() && database.in_transaction()) {
    if (absl::Status s = writer_->UndoToMark(); !s.ok()) return s;
  }
  if (database.in_transaction()) {
    if (absl::Status s = writer_->DropMark(); !s.ok()) return s;
  }
  return outcome;
}

absl::Status WriteQueue::Transaction(const std::deque<Write>& writes, std::size_t begin,
                                     std::size_t end,
                                     std::vector<absl::StatusOr<std::int64_t>>& outcomes) {
  Database& database = writer_->database();
  absl::Status status = writer_->Begin();
  for (std::size_t n = begin; n < end && status.ok(); ++n) {
    outcomes[n] = Apply(writes[n]);
    if (!outcomes[n].ok() && !OwnFault(outcomes[n].status())) status = outcomes[n].status();
  }
  if (status.ok()) status = writer_->Commit();
  if (!status.ok() && database.in_transaction()) {
    if (absl::Status s = writer_->RollBack(); !s.ok()) {
      Log(LogLevel::kError, "store.cannot_roll_back", {{"reason", std::string(s.message())}});
    }
  }
  return status;
}

// A write by itself; what makes room gets the room that is kept for it.
absl::Status WriteQueue::One(std::deque<Write>& writes, std::size_t n,
                             std::vector<absl::StatusOr<std::int64_t>>& outcomes) {
  absl::Status alone = Transaction(writes, n, n + 1, outcomes);
  if (absl::IsResourceExhausted(alone) && MakesRoom(writes[n].what) && room_->Give()) {
    SetFull(alone);
    alone = Transaction(writes, n, n + 1, outcomes);
  }
  if (!alone.ok()) outcomes[n] = alone;
  return alone;
}

void WriteQueue::Commit(std::deque<Write> writes) {
  if (writes.empty()) return;
  std::vector<absl::StatusOr<std::int64_t>> outcomes(writes.size(), 0);
  // What is given of the room that was set aside is for deletions alone.
  const bool only_deletions = room_->given() && Holds();
  bool together = held_.empty() && !only_deletions;
  if (together) {
    together = Transaction(writes, 0, writes.size(), outcomes).ok();
  }
  for (std::size_t n = 0; n < writes.size(); ++n) {
    if (!together) {
      const bool update = std::holds_alternative<JobUpdate>(writes[n].what);
      // Behind those that are held, as a job's updates keep their order. Alone otherwise: one that
      // cannot be kept must not take the others with it.
      if (update && (!held_.empty() || only_deletions)) {
        Hold(std::move(writes[n]));
        continue;
      }
      const absl::Status alone = One(writes, n, outcomes);
      if (update && absl::IsResourceExhausted(alone)) {
        if (Holds()) {
          SetFull(alone);
          Hold(std::move(writes[n]));
          continue;
        }
      }
    }
    if (writes[n].done) writes[n].done(outcomes[n].status(), outcomes[n].value_or(0));
  }
}

void WriteQueue::Hold(Write write) {
  held_.push_back(std::move(write));
  {
    const std::lock_guard guard(mutex_);
    held_count_ = held_.size();
  }
  SayState();
}

void WriteQueue::SetFull(const absl::Status& why) {
  {
    const std::lock_guard guard(mutex_);
    if (!full_.empty()) return;
    full_ = std::string(why.message());
  }
  Log(LogLevel::kError, "store.full", {{"reason", std::string(why.message())}});
}

bool WriteQueue::Holds() {
  const std::lock_guard guard(mutex_);
  return holds_;
}

void WriteQueue::TryHeld() {
  const bool holds = Holds();
  // The journal's pages go to the file, and its space to whoever needs it. Readers of an older
  // state, such as a backup, are not waited for.
  Database& database = writer_->database();
  database.SetPatience(std::chrono::milliseconds(0));
  if (absl::Status s = database.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); !s.ok()) {
    Log(LogLevel::kDebug, "store.checkpoint", {{"reason", std::string(s.message())}});
  }
  database.SetPatience(Database::kPatience);
  if (holds && !room_->Take()) return SayState();
  while (!held_.empty()) {
    std::vector<absl::StatusOr<std::int64_t>> outcomes(held_.size(), 0);
    const absl::Status alone = One(held_, 0, outcomes);
    if (absl::IsResourceExhausted(alone) && holds) break;
    const Write write = std::move(held_.front());
    held_.pop_front();
    if (write.done) write.done(outcomes[0].status(), outcomes[0].value_or(0));
  }
  const bool room = held_.empty() && room_->Take();
  {
    const std::lock_guard guard(mutex_);
    held_count_ = held_.size();
    if (room) full_.clear();
  }
  if (room) Log(LogLevel::kInfo, "store.has_room");
  drained_.notify_all();
  SayState();
}

}  // namespace assay::server
