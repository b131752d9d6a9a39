// What a store does when it has no room, when records of it are damaged, and how it is copied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/store.h"
#include "server/store/store_check.h"
#include "server/store/store_file.h"

namespace assay::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NewJob JobNamed(const std::string& id, v1::JobState state = v1::JOB_STATE_QUEUED) {
  NewJob job;
  job.job.set_name("jobs/" + id);
  job.job.set_state(state);
  job.job.mutable_counts()->set_total(3);
  return job;
}

JobUpdate ResultOf(const std::string& id, int index, std::size_t bytes) {
  JobUpdate update{.name = "jobs/" + id};
  v1::CaseResult& result = *update.events.emplace_back().mutable_case_result();
  result.set_index(index);
  result.set_verdict(v1::VERDICT_PASSED);
  result.set_repro(std::string(bytes, 'x'));
  return update;
}

// The newest state of a store, for a thread that waits for one.
class StateOf {
 public:
  explicit StateOf(Store& store) : store_(store) {
    store.TellOfState([this](const StoreState& state) {
      const std::lock_guard guard(mutex_);
      state_ = state;
      changed_.notify_all();
    });
  }
  ~StateOf() { store_.TellOfState(nullptr); }
  StoreState Await(const std::function<bool(const StoreState&)>& wanted) {
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [&] { return wanted(state_); });
    return state_;
  }

 private:
  Store& store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  StoreState state_;
};

class StoreDamage : public testing::Test {
 protected:
  StoreDamage() {
    char path[] = "/tmp/assay-store-XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~StoreDamage() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Store> Open(std::int64_t max_bytes = 0) { return OpenIn(folder_, max_bytes); }
  static std::unique_ptr<Store> OpenIn(const std::string& folder, std::int64_t max_bytes = 0) {
    auto store = Store::Open({.folder = folder, .max_bytes = max_bytes});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  std::unique_ptr<StoreReader> Reader() {
    auto database = OpenStoreReader(folder_);
    EXPECT_TRUE(database.ok()) << database.status();
    auto reader = StoreReader::Make(*std::move(database));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }
  void Sql(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ + "/assay.db").c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  std::string folder_;
};

TEST_F(StoreDamage, WhatHasNoRoomIsHeldInOrderAndWrittenWhenThereIs) {
  auto store = Open(512 << 10);
  StateOf state(*store);
  ASSERT_TRUE(store->CreateJob(JobNamed("old")).ok());
  ASSERT_TRUE(store->CreateJob(JobNamed("a")).ok());
  ASSERT_TRUE(store->Apply(ResultOf("old", 0, 300'000)).ok());
  std::mutex mutex;
  std::vector<std::int64_t> sequences;
  std::promise<void> all;
  for (int n = 0; n < 3; ++n) {
    // The first has no room; those after it would have, and wait for it all the same.
    store->Submit(ResultOf("a", n, n == 0 ? 300'000 : 10),
                  [&, n](const absl::Status& status, std::int64_t sequence) {
                    EXPECT_TRUE(status.ok()) << status;
                    const std::lock_guard guard(mutex);
                    sequences.push_back(sequence);
                    if (n == 2) all.set_value();
                  });
  }
  const StoreState full = state.Await([](const StoreState& s) { return s.held == 3; });
  EXPECT_THAT(full.full, HasSubstr(folder_));
  EXPECT_TRUE(store->Events("jobs/a", 0, 10)->empty()) << "nothing is shown that is not written";
  bool queued = false;
  const absl::Status refused = store->CreateJob(JobNamed("b"), [&] { queued = true; });
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_FALSE(queued) << "nothing of the job may run";
  ASSERT_TRUE(store->DeleteJob("jobs/old").ok());
  all.get_future().wait();
  EXPECT_THAT(sequences, ElementsAre(1, 2, 3));
  state.Await([](const StoreState& s) { return s.held == 0 && s.full.empty(); });
  EXPECT_EQ(store->Results("jobs/a", 0, 10)->size(), 3u);
  EXPECT_TRUE(store->CreateJob(JobNamed("b")).ok());
}

// Each update that came put the next try off by a second.
TEST_F(StoreDamage, WhatIsHeldIsTriedAgainWhileUpdatesKeepComing) {
  std::promise<void> written;  // outlives the store, which answers at its end
  auto store = Open(512 << 10);
  StateOf state(*store);
  ASSERT_TRUE(store->CreateJob(JobNamed("old")).ok());
  ASSERT_TRUE(store->CreateJob(JobNamed("a")).ok());
  ASSERT_TRUE(store->Apply(ResultOf("old", 0, 300'000)).ok());
  store->Submit(ResultOf("a", 0, 300'000),
                [&](const absl::Status&, std::int64_t) { written.set_value(); });
  state.Await([](const StoreState& s) { return s.held == 1; });
  Sql("PRAGMA busy_timeout = 10000; DELETE FROM results");  // room that the store is not told of
  std::future<void> answer = written.get_future();
  bool answered = false;
  for (int n = 0; n < 200 && !answered; ++n) {
    JobUpdate update{.name = "jobs/a"};
    update.events.emplace_back().mutable_state_change();
    store->Submit(std::move(update), nullptr);
    answered = answer.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready;
  }
  EXPECT_TRUE(answered);
  EXPECT_EQ(store->Results("jobs/a", 0, 10)->size(), 1u);
}

// A daemon that starts writes how jobs ended before anybody can make room.
TEST_F(StoreDamage, OnlyResultsWaitForAPlaceAmongWhatIsHeld) {
  auto store = Open(512 << 10);
  StateOf state(*store);
  ASSERT_TRUE(store->CreateJob(JobNamed("a")).ok());
  store->Submit(ResultOf("a", 0, 900'000), nullptr);
  state.Await([](const StoreState& s) { return s.held == 1; });
  for (int n = 0; n < 1000; ++n) {
    JobUpdate update{.name = "jobs/a"};
    update.events.emplace_back().mutable_state_change();
    store->Submit(std::move(update), nullptr);
  }
  state.Await([](const StoreState& s) { return s.held == 1001; });
  store->HoldNoMore();
}

TEST_F(StoreDamage, WhatADaemonLeftOfACopyIsRemoved) {
  std::ofstream(folder_ + "/assay.db.backup") << "half";
  auto store = Open();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/assay.db.backup"));
}

TEST_F(StoreDamage, ADaemonThatEndsRefusesWhatHasNoRoom) {
  auto store = Open(512 << 10);
  StateOf state(*store);
  ASSERT_TRUE(store->CreateJob(JobNamed("a")).ok());
  std::promise<absl::Status> answer;
  store->Submit(ResultOf("a", 0, 900'000),
                [&](const absl::Status& status, std::int64_t) { answer.set_value(status); });
  state.Await([](const StoreState& s) { return s.held == 1; });
  store->HoldNoMore();
  EXPECT_TRUE(absl::IsResourceExhausted(answer.get_future().get()));
  EXPECT_TRUE(absl::IsResourceExhausted(store->Apply(ResultOf("a", 0, 900'000))));
  EXPECT_TRUE(store->Apply(ResultOf("a", 1, 10)).ok()) << "what has room is written";
}

TEST_F(StoreDamage, SpaceThatIsSetAsideIsGivenAndTakenAgain) {
  Room room(folder_);
  const std::string path = folder_ + "/assay.reserve";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "this file system sets no space aside";
  EXPECT_TRUE(room.Give());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(room.Give()) << "there is no more";
  EXPECT_TRUE(room.Take());
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(Room(folder_).Give()) << "a new daemon finds what an earlier one set aside";
}

TEST_F(StoreDamage, AJobThatCannotBeReadHidesNoOther) {
  {
    auto store = Open();
    for (const char* id : {"a", "b", "c"}) {
      ASSERT_TRUE(store->CreateJob(JobNamed(id, v1::JOB_STATE_RUNNING)).ok());
    }
  }
  Sql("UPDATE jobs SET summary = x'ffff' WHERE name = 'jobs/b'");
  auto store = Open();
  const auto unfinished = store->UnfinishedJobs();
  ASSERT_TRUE(unfinished.ok()) << unfinished.status();
  ASSERT_EQ(unfinished->size(), 3u);
  EXPECT_EQ((*unfinished)[1].name(), "jobs/b");
  ASSERT_EQ((*unfinished)[1].findings_size(), 1);
  EXPECT_EQ((*unfinished)[1].findings(0).reason(), "fault");
  EXPECT_THAT((*unfinished)[1].findings(0).message(), HasSubstr("jobs/b"));
  EXPECT_EQ((*unfinished)[2].findings_size(), 0);
  EXPECT_EQ(store->ListJobs({})->jobs.size(), 3u);
  EXPECT_TRUE(absl::IsDataLoss(store->GetJob("jobs/b").status()));
  EXPECT_TRUE(store->GetJob("jobs/c").ok());
}

TEST_F(StoreDamage, ABaselineThatCannotBeReadHidesNoOther) {
  {
    auto store = Open();
    for (const char* id : {"a", "b", "c"}) {
      v1::Baseline baseline;
      baseline.set_name(absl::StrCat("baselines/", id));
      baseline.set_model("a model");
      ASSERT_TRUE(store->CreateBaseline(baseline).ok());
    }
  }
  Sql("UPDATE baselines SET summary = x'ffff' WHERE name = 'baselines/b'");
  auto store = Open();
  const auto page = store->ListBaselines(0, 10);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->baselines.size(), 3u);
  EXPECT_EQ(page->baselines[0].model(), "a model");
  EXPECT_EQ(page->baselines[1].name(), "baselines/b");
  EXPECT_EQ(page->baselines[1].model(), "");
  EXPECT_TRUE(absl::IsDataLoss(store->GetBaseline("baselines/b").status()));
  EXPECT_TRUE(store->DeleteBaseline("baselines/b").ok());
}

// What a check finds, in its order: "job jobs/a", "baseline baselines/b", "file the jobs".
std::vector<std::string> FoundBy(StoreReader& reader) {
  std::vector<std::string> found;
  CheckStore(reader, {}, [&](const Damage& damage) {
    EXPECT_TRUE(absl::IsDataLoss(damage.why)) << damage.why;
    const char* of = damage.of == Damage::Of::kJob        ? "job"
                     : damage.of == Damage::Of::kBaseline ? "baseline"
                                                          : "file";
    found.push_back(absl::StrCat(of, " ", damage.name));
  });
  return found;
}

TEST_F(StoreDamage, ACheckNamesAllThatCannotBeRead) {
  {
    auto store = Open();
    for (const char* id : {"good", "result", "event", "spec", "plan"}) {
      NewJob job = JobNamed(id);
      job.request_id = id;
      job.plans.emplace_back().device = "cpu:0";
      ASSERT_TRUE(store->CreateJob(job).ok());
      for (int n = 0; n < 3; ++n) ASSERT_TRUE(store->Apply(ResultOf(id, n, 100)).ok());
    }
    for (const char* id : {"good", "summary", "results"}) {
      v1::Baseline baseline;
      baseline.set_name(absl::StrCat("baselines/", id));
      baseline.add_results();
      ASSERT_TRUE(store->CreateBaseline(baseline).ok());
    }
  }
  EXPECT_THAT(FoundBy(*Reader()), ElementsAre());
  Sql("UPDATE results SET data = x'ffff' WHERE key = (2 << 24) + 1;"
      "UPDATE events SET result = NULL, data = x'ffff' WHERE key = (3 << 24) + 2;"
      "UPDATE jobs SET spec = x'ffff' WHERE name = 'jobs/spec';"
      "UPDATE plans SET cases = x'ffff' WHERE key >> 24 = 5;"
      "UPDATE baselines SET summary = x'ffff' WHERE name = 'baselines/summary';"
      "UPDATE baselines SET results = x'ffff' WHERE name = 'baselines/results'");
  EXPECT_THAT(FoundBy(*Reader()),
              ElementsAre("job jobs/result", "job jobs/event", "job jobs/spec", "job jobs/plan",
                          "baseline baselines/summary", "baseline baselines/results"));
}

// SQLite's quick_check does not find this one.
TEST_F(StoreDamage, ACheckNamesAJobThatAnIndexLacks) {
  {
    auto store = Open();
    ASSERT_TRUE(store->CreateJob(JobNamed("a")).ok());
  }
  Sql("DROP INDEX jobs_by_state; CREATE INDEX jobs_by_state ON jobs(total);"
      "PRAGMA writable_schema = ON;"
      "UPDATE sqlite_schema SET sql = 'CREATE INDEX jobs_by_state ON jobs(state)'"
      " WHERE name = 'jobs_by_state'");
  EXPECT_THAT(FoundBy(*Reader()), ElementsAre("job jobs/a"));
}

// Its records are read after the opening, which does not look into them.
TEST_F(StoreDamage, EveryStoreIsCheckedWhileItServes) {
  {
    auto store = Open();
    ASSERT_TRUE(store->CreateJob(JobNamed("a")).ok());
    ASSERT_TRUE(store->Apply(ResultOf("a", 0, 100)).ok());
  }
  Sql("UPDATE results SET data = x'ffff'");
  auto store = Open();
  StateOf state(*store);
  EXPECT_TRUE(state.Await([](const StoreState& s) { return s.damaged; }).damaged);
  EXPECT_TRUE(store->notices().empty()) << "nothing is moved aside";
}

// Looking through a large file would be felt at each start.
TEST_F(StoreDamage, ALargeStoreIsLookedThroughWhileItServes) {
  {
    auto store = Open();
    for (const char* id : {"a", "b"}) {
      ASSERT_TRUE(store->CreateJob(JobNamed(id)).ok());
      for (int n = 0; n < 3; ++n) ASSERT_TRUE(store->Apply(ResultOf(id, n, 10'000)).ok());
    }
    ASSERT_TRUE(store->DeleteJob("jobs/b").ok());
  }
  const std::string path = folder_ + "/assay.db";
  {
    // The header says how many pages are free.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(36);
    for (int n = 0; n < 4; ++n) file.put(static_cast<char>(n));
  }
  const std::string small = folder_ + "/small";
  std::filesystem::create_directory(small);
  std::filesystem::copy(path, small + "/assay.db");
  EXPECT_EQ(OpenIn(small)->notices().size(), 1u) << "a small one is looked through at once";

  // No page is behind the last one: the file is large, and takes no space on the disk.
  std::filesystem::resize_file(path, (std::uintmax_t{256} << 20) + 4096);
  auto store = Open();
  EXPECT_TRUE(store->notices().empty());
  EXPECT_TRUE(store->GetJob("jobs/a").ok());
  StateOf state(*store);
  EXPECT_TRUE(state.Await([](const StoreState& s) { return s.damaged; }).damaged);
  EXPECT_THAT(FoundBy(*Reader()), ElementsAre("file the list of free pages"));
}

// Behind this page are the results of all jobs.
TEST_F(StoreDamage, ACheckFindsAPageThatIsOverwritten) {
  {
    auto store = Open();
    for (const char* id : {"a", "b"}) {
      ASSERT_TRUE(store->CreateJob(JobNamed(id)).ok());
    }
    for (int n = 0; n < 20; ++n) ASSERT_TRUE(store->Apply(ResultOf("b", n, 1'000)).ok());
  }
  const std::int64_t page =
      *Reader()->database().Number("SELECT rootpage FROM sqlite_schema WHERE name = 'results'");
  {
    std::fstream file(folder_ + "/assay.db", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((page - 1) * 4096);
    for (int n = 0; n < 4096; ++n) file.put('\x5a');
  }
  EXPECT_THAT(FoundBy(*Reader()), ElementsAre("job jobs/a", "job jobs/b"));
}

TEST_F(StoreDamage, ADamagedFileIsSaidInTheState) {
  { auto store = Open(); }
  std::ofstream(folder_ + "/assay.db") << std::string(10'000, 'z');
  auto store = Open();
  StateOf state(*store);
  EXPECT_TRUE(state.Await([](const StoreState&) { return true; }).damaged);
}

TEST_F(StoreDamage, AFileMovedAsideIsToldUntilItIsRemoved) {
  { auto store = Open(); }
  std::ofstream(folder_ + "/assay.db") << std::string(10'000, 'z');
  { auto store = Open(); }
  {
    auto store = Open();
    EXPECT_TRUE(store->notices().empty());
    StateOf state(*store);
    EXPECT_TRUE(state.Await([](const StoreState&) { return true; }).damaged);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().string().find(".corrupt-") != std::string::npos) {
      std::filesystem::remove(entry.path());
    }
  }
  auto store = Open();
  StateOf state(*store);
  EXPECT_FALSE(state.Await([](const StoreState&) { return true; }).damaged);
}

TEST_F(StoreDamage, ABackupIsAStoreOfTheSameJobs) {
  auto store = Open();
  ASSERT_TRUE(store->CreateJob(JobNamed("a")).ok());
  for (int n = 0; n < 30; ++n) ASSERT_TRUE(store->Apply(ResultOf("a", n, 100'000)).ok());
  const std::string other = folder_ + "/other";
  std::filesystem::create_directory(other);
  std::int64_t whole = 0;
  std::int64_t got = 0;
  {
    std::ofstream file(other + "/assay.db", std::ios::binary);
    const absl::Status status = store->Backup([&](std::string_view piece, std::int64_t bytes) {
      EXPECT_LE(piece.size(), std::size_t{1} << 20);
      whole = bytes;
      got += static_cast<std::int64_t>(piece.size());
      file << piece;
      // It is in use meanwhile, and nobody else copies it.
      EXPECT_TRUE(store->Apply(ResultOf("a", 100 + static_cast<int>(got >> 16), 10)).ok());
      EXPECT_TRUE(absl::IsFailedPrecondition(
          store->Backup([](std::string_view, std::int64_t) { return absl::OkStatus(); })));
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(got, whole);
  auto copy = OpenIn(other);
  EXPECT_EQ(copy->GetJob("jobs/a")->counts().passed(), 30) << "as it was when the copy began";
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/assay.db.backup"));
  const absl::Status ended = store->Backup(
      [](std::string_view, std::int64_t) { return absl::CancelledError("the caller left"); });
  EXPECT_TRUE(absl::IsCancelled(ended));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/assay.db.backup"));
}

// Without the end the copy of this store would be given to the caller.
TEST_F(StoreDamage, ABackupEndsWithTheDaemon) {
  auto store = Open();
  ASSERT_TRUE(store->CreateJob(JobNamed("a")).ok());
  for (int n = 0; n < 30; ++n) ASSERT_TRUE(store->Apply(ResultOf("a", n, 100'000)).ok());
  store->HoldNoMore();
  int pieces = 0;
  const absl::Status ended = store->Backup([&](std::string_view, std::int64_t) {
    ++pieces;
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_EQ(pieces, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/assay.db.backup"));
}

}  // namespace
}  // namespace assay::server
