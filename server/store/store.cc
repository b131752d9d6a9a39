#include "server/store/store.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <variant>

#include "kernels/text/cat.h"
#include "server/base/log.h"
#include "server/store/baseline_table.h"
#include "server/store/store_file.h"
#include "server/store/store_reader.h"
#include "server/store/store_writer.h"

namespace assay::server {
namespace {

// Writes that may wait: enough to fill a commit, few enough that a disk that
// stalls is felt by the runners and not by the memory.
constexpr std::size_t kQueueLimit = 64;

// SQLite's default.
constexpr std::int64_t kPageBytes = 4096;

// Updates that can wait for the next write wait no longer than this.
constexpr std::chrono::milliseconds kMostWait{5};

struct DeletedJob {
  std::string name;
};
struct DeletedBaseline {
  std::string name;
};
struct FreedPages {
  std::int64_t count = 0;
};
// What is new waits with its caller, so a pointer is enough.
using Change = std::variant<const NewJob*, DeletedJob, JobUpdate, const v1::Baseline*,
                            DeletedBaseline, FreedPages>;

// A write that waits, and who wants to know.
struct Write {
  Change what;
  Store::Done done;
};

// Failures that say nothing about the next write of the same commit.
bool OwnFault(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsAlreadyExists(status);
}

class SqliteStore final : public Store {
 public:
  SqliteStore(std::unique_ptr<FolderLock> lock, std::unique_ptr<StoreWriter> writer,
              std::unique_ptr<StoreReader> reader, std::vector<std::string> notices)
      : lock_(std::move(lock)),
        writer_(std::move(writer)),
        reader_(std::move(reader)),
        notices_(std::move(notices)),
        thread_([this] { WriteLoop(); }) {}

  ~SqliteStore() override {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const std::vector<std::string>& notices() const override { return notices_; }

  absl::Status CreateJob(const NewJob& job, absl::FunctionRef<void()> queued) override {
    return Wait(&job, queued);
  }
  absl::Status DeleteJob(std::string_view name) override {
    return Wait(DeletedJob{std::string(name)});
  }
  absl::Status Apply(JobUpdate update) override { return Wait(std::move(update)); }
  absl::Status CreateBaseline(const v1::Baseline& baseline) override { return Wait(&baseline); }
  absl::Status DeleteBaseline(std::string_view name) override {
    return Wait(DeletedBaseline{std::string(name)});
  }

  void Submit(JobUpdate update, Done done) override {
    Enqueue(Write{std::move(update), std::move(done)});
  }

  absl::StatusOr<v1::Job> GetJob(std::string_view name) override {
    const std::lock_guard guard(reader_mutex_);
    return reader_->GetJob(name);
  }
  absl::StatusOr<v1::Job> FindRequest(std::string_view request_id) override {
    const std::lock_guard guard(reader_mutex_);
    return reader_->FindRequest(request_id);
  }
  absl::StatusOr<JobPage> ListJobs(const JobQuery& query) override {
    const std::lock_guard guard(reader_mutex_);
    return reader_->ListJobs(query);
  }
  absl::StatusOr<std::vector<v1::JobEvent>> Events(std::string_view name, std::int64_t after,
                                                   int limit) override {
    const std::lock_guard guard(reader_mutex_);
    return reader_->Events(name, after, limit);
  }
  absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name, std::int32_t from,
                                                      int limit) override {
    const std::lock_guard guard(reader_mutex_);
    return reader_->Results(name, from, limit);
  }
  absl::StatusOr<std::vector<v1::Job>> UnfinishedJobs() override {
    const std::lock_guard guard(reader_mutex_);
    return reader_->UnfinishedJobs();
  }
  absl::StatusOr<std::vector<DevicePlan>> Plans(std::string_view name) override {
    const std::lock_guard guard(reader_mutex_);
    return reader_->Plans(name);
  }
  absl::StatusOr<std::vector<std::int32_t>> ResultIndices(std::string_view name) override {
    const std::lock_guard guard(reader_mutex_);
    return reader_->ResultIndices(name);
  }
  absl::StatusOr<StoreSize> Size() override {
    const std::lock_guard guard(reader_mutex_);
    Database& database = reader_->database();
    std::array<std::int64_t, 3> numbers{};
    constexpr std::array<const char*, 3> kAsked = {"PRAGMA page_size", "PRAGMA page_count",
                                                   "PRAGMA freelist_count"};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const absl::StatusOr<std::int64_t> number = database.Number(kAsked[i]);
      if (!number.ok()) return number.status();
      numbers[i] = *number;
    }
    const auto [page, pages, unused] = numbers;
    return StoreSize{.used = (pages - unused) * page, .free = unused * page};
  }
  absl::Status GiveBack(std::int64_t bytes) override {
    return Wait(FreedPages{std::max<std::int64_t>(bytes / kPageBytes, 1)});
  }
  absl::StatusOr<v1::Baseline> GetBaseline(std::string_view name) override {
    const std::lock_guard guard(reader_mutex_);
    return ReadBaseline(reader_->database(), name);
  }
  absl::StatusOr<BaselinePage> ListBaselines(std::int64_t before, int limit) override {
    const std::lock_guard guard(reader_mutex_);
    return ReadBaselines(reader_->database(), before, limit);
  }

 private:
  void Enqueue(Write write) {
    std::unique_lock guard(mutex_);
    drained_.wait(guard, [this] { return queue_.size() < kQueueLimit; });
    const auto* update = std::get_if<JobUpdate>(&write.what);
    if (update == nullptr || !update->can_wait || queue_.size() + 1 == kQueueLimit) urgent_ = true;
    queue_.push_back(std::move(write));
    guard.unlock();
    changed_.notify_one();
  }

  absl::Status Wait(Change what) {
    return Wait(std::move(what), [] {});
  }

  absl::Status Wait(Change what, absl::FunctionRef<void()> queued) {
    std::mutex mutex;
    std::condition_variable told;
    std::optional<absl::Status> answer;
    Enqueue(Write{std::move(what), [&](const absl::Status& status, std::int64_t) {
                    const std::lock_guard guard(mutex);
                    answer = status;
                    told.notify_one();
                  }});
    queued();
    std::unique_lock guard(mutex);
    told.wait(guard, [&] { return answer.has_value(); });
    return *answer;
  }

  void WriteLoop() {
    std::deque<Write> batch;
    while (true) {
      {
        std::unique_lock guard(mutex_);
        changed_.wait(guard, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        changed_.wait_for(guard, kMostWait, [this] { return stopping_ || urgent_; });
        batch.swap(queue_);
        urgent_ = false;
      }
      drained_.notify_all();
      Commit(batch);
      batch.clear();
    }
  }

  absl::StatusOr<std::int64_t> ApplyOne(const Write& write) {
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
      told(server::DeleteBaseline(database, old->name));
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

  // One transaction of writes[begin, end). Returns the failure of the transaction
  // itself; then nothing of it is kept.
  absl::Status Transaction(const std::deque<Write>& writes, std::size_t begin, std::size_t end,
                           std::vector<absl::StatusOr<std::int64_t>>& outcomes) {
    Database& database = writer_->database();
    absl::Status status = writer_->Begin();
    for (std::size_t n = begin; n < end && status.ok(); ++n) {
      outcomes[n] = ApplyOne(writes[n]);
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

  void Commit(const std::deque<Write>& writes) {
    std::vector<absl::StatusOr<std::int64_t>> outcomes(writes.size(), 0);
    absl::Status status = Transaction(writes, 0, writes.size(), outcomes);
    if (!status.ok() && writes.size() > 1) {
      // One that is too large for the disk must not take the others with it.
      for (std::size_t n = 0; n < writes.size(); ++n) {
        const absl::Status alone = Transaction(writes, n, n + 1, outcomes);
        if (!alone.ok()) outcomes[n] = alone;
      }
    } else if (!status.ok()) {
      outcomes[0] = status;
    }
    for (std::size_t n = 0; n < writes.size(); ++n) {
      if (writes[n].done) writes[n].done(outcomes[n].status(), outcomes[n].value_or(0));
    }
  }

  const std::unique_ptr<FolderLock> lock_;
  const std::unique_ptr<StoreWriter> writer_;  // writer thread
  std::mutex reader_mutex_;
  const std::unique_ptr<StoreReader> reader_;  // reader_mutex_
  const std::vector<std::string> notices_;

  std::mutex mutex_;
  std::condition_variable changed_;  // queue_ or stopping_
  std::condition_variable drained_;  // queue_ has room
  std::deque<Write> queue_;          // mutex_
  bool urgent_ = false;              // mutex_; a write of the queue cannot wait
  bool stopping_ = false;            // mutex_
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) {
    return absl::PermissionDeniedError(
        Cat("cannot make the state folder ", options.folder, ": ", error.message()));
  }
  absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Take(options.folder);
  if (!lock.ok()) return lock.status();
  std::vector<std::string> notices;
  absl::StatusOr<std::unique_ptr<Database>> file = OpenStoreFile(options, notices);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::unique_ptr<StoreWriter>> writer = StoreWriter::Make(*std::move(file));
  if (!writer.ok()) return writer.status();
  absl::StatusOr<std::unique_ptr<Database>> reading = OpenStoreReader(options.folder);
  if (!reading.ok()) return reading.status();
  absl::StatusOr<std::unique_ptr<StoreReader>> reader = StoreReader::Make(*std::move(reading));
  if (!reader.ok()) return reader.status();
  return std::make_unique<SqliteStore>(*std::move(lock), *std::move(writer), *std::move(reader),
                                       std::move(notices));
}

}  // namespace assay::server
