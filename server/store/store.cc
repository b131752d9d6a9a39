#include "server/store/store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "kernels/text/cat.h"
#include "server/store/baseline_table.h"
#include "server/store/store_backup.h"
#include "server/store/store_check.h"
#include "server/store/store_file.h"
#include "server/store/store_reader.h"
#include "server/store/store_writer.h"
#include "server/store/user_kernels_named.h"
#include "server/store/write_queue.h"

namespace assay::server {
namespace {

// SQLite's default.
constexpr std::int64_t kPageBytes = 4096;

class SqliteStore final : public Store {
 public:
  SqliteStore(const std::string& folder, std::unique_ptr<FolderLock> lock,
              std::unique_ptr<StoreWriter> writer, std::unique_ptr<Room> room,
              std::unique_ptr<StoreReader> reader, std::unique_ptr<StoreReader> checked,
              std::vector<std::string> notices, StoreState state)
      : folder_(folder),
        lock_(std::move(lock)),
        notices_(std::move(notices)),
        queue_(std::move(writer), std::move(room), std::move(state)),
        reader_(std::move(reader)) {
    check_ = std::make_unique<StoreCheck>(std::move(checked), [this] { queue_.Damaged(); });
  }

  const std::vector<std::string>& notices() const override { return notices_; }

  void TellOfState(std::function<void(const StoreState&)> told) override {
    queue_.TellOfState(std::move(told));
  }
  void HoldNoMore() override {
    ending_ = true;
    queue_.HoldNoMore();
  }
  absl::Status Backup(
      absl::FunctionRef<absl::Status(std::string_view, std::int64_t)> write) override {
    const std::unique_lock guard(backup_mutex_, std::try_to_lock);
    if (!guard.owns_lock()) {
      return absl::FailedPreconditionError("another backup is being made: wait for its end");
    }
    return BackupStore(folder_, ending_, write);
  }

  absl::Status CreateJob(const NewJob& job, absl::FunctionRef<void()> queued) override {
    return queue_.Wait(&job, queued);
  }
  absl::Status DeleteJob(std::string_view name) override {
    return queue_.Wait(DeletedJob{std::string(name)});
  }
  absl::Status Apply(JobUpdate update) override { return queue_.Wait(std::move(update)); }
  absl::Status CreateBaseline(const v1::Baseline& baseline) override {
    return queue_.Wait(&baseline);
  }
  absl::Status DeleteBaseline(std::string_view name) override {
    return queue_.Wait(DeletedBaseline{std::string(name)});
  }

  void Submit(JobUpdate update, Done done) override {
    queue_.Submit(std::move(update), std::move(done));
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
  absl::StatusOr<std::set<std::string>> UserKernels() override {
    // A connection of its own: nobody waits while all specs are read.
    absl::StatusOr<std::unique_ptr<Database>> reading = OpenStoreReader(folder_);
    if (!reading.ok()) return reading.status();
    return ReadUserKernels(**reading);
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
    return queue_.Wait(FreedPages{std::max<std::int64_t>(bytes / kPageBytes, 1)});
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
  const std::string folder_;
  const std::unique_ptr<FolderLock> lock_;
  const std::vector<std::string> notices_;
  WriteQueue queue_;  // before the readers: the last to close moves the journal into the file
  std::mutex reader_mutex_;
  const std::unique_ptr<StoreReader> reader_;  // reader_mutex_
  std::atomic<bool> ending_{false};
  std::mutex backup_mutex_;            // held while a backup is made
  std::unique_ptr<StoreCheck> check_;  // after what it tells
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
  RemoveBackup(options.folder);
  auto room = std::make_unique<Room>(options.folder);
  std::vector<std::string> notices;
  StoreState state;
  absl::StatusOr<std::unique_ptr<Database>> file = OpenStoreFile(options, *room, notices, state);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::unique_ptr<StoreWriter>> writer = StoreWriter::Make(*std::move(file));
  if (!writer.ok()) return writer.status();
  const auto make_reader = [&]() -> absl::StatusOr<std::unique_ptr<StoreReader>> {
    absl::StatusOr<std::unique_ptr<Database>> reading = OpenStoreReader(options.folder);
    if (!reading.ok()) return reading.status();
    return StoreReader::Make(*std::move(reading));
  };
  absl::StatusOr<std::unique_ptr<StoreReader>> reader = make_reader();
  if (!reader.ok()) return reader.status();
  absl::StatusOr<std::unique_ptr<StoreReader>> checked = make_reader();
  if (!checked.ok()) return checked.status();
  return std::make_unique<SqliteStore>(options.folder, *std::move(lock), *std::move(writer),
                                       std::move(room), *std::move(reader), *std::move(checked),
                                       std::move(notices), std::move(state));
}

}  // namespace assay::server
