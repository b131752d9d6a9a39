#include "server/store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/store/each_result.h"

namespace assay::server {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    char path[] = "/tmp/assay-store-XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~StoreTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Store> Open(std::int64_t max_bytes = 0) {
    auto store = Store::Open({.folder = folder_, .max_bytes = max_bytes});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  absl::Status OpenError() { return Store::Open({.folder = folder_}).status(); }
  std::string DatabasePath() const { return folder_ + "/assay.db"; }

  std::string folder_;
};

NewJob MakeJob(const std::string& id, int total = 3) {
  NewJob job;
  job.job.set_name("jobs/" + id);
  job.job.set_state(v1::JOB_STATE_QUEUED);
  job.job.mutable_counts()->set_total(total);
  job.job.mutable_create_time()->set_seconds(1'700'000'000);
  job.job.mutable_create_time()->set_nanos(123'456'789);
  job.job.add_devices("cpu:0");
  (*job.job.mutable_spec()->mutable_labels())["team"] = id;
  return job;
}

v1::JobEvent ResultEvent(int index, v1::Verdict verdict, std::size_t padding = 0) {
  v1::JobEvent event;
  event.mutable_create_time()->set_seconds(1'700'000'001);
  v1::CaseResult& result = *event.mutable_case_result();
  result.set_index(index);
  result.set_verdict(verdict);
  result.set_name(absl::StrCat("case ", index));
  result.set_repro(std::string(padding, 'x'));
  return event;
}

JobUpdate Results(const std::string& id, int begin, int end) {
  JobUpdate update{.name = "jobs/" + id};
  for (int n = begin; n < end; ++n) update.events.push_back(ResultEvent(n, v1::VERDICT_PASSED));
  return update;
}

TEST_F(StoreTest, EachResultIsVisitedOnceWhateverThePages) {
  auto store = Open();
  constexpr int kCases = 2100;
  ASSERT_TRUE(store->CreateJob(MakeJob("a", kCases)).ok());
  ASSERT_TRUE(store->Apply(Results("a", 0, kCases)).ok());
  int next = 0;
  const absl::Status read = ForEachResult(
      *store, "jobs/a", [&](const v1::CaseResult& r) { EXPECT_EQ(r.index(), next++); });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(next, kCases);
  int visited = 0;
  const auto is = [&](int index) {
    visited = 0;
    return AnyResult(*store, "jobs/a",
                     [&, index](const v1::CaseResult& r) {
                       ++visited;
                       return r.index() == index;
                     })
        .value();
  };
  EXPECT_TRUE(is(1500));
  EXPECT_EQ(visited, 1501) << "none is read after the one";
  EXPECT_FALSE(is(kCases));
  EXPECT_EQ(visited, kCases);
  EXPECT_EQ(ForEachResult(*store, "jobs/b", [](const v1::CaseResult&) {}).code(),
            store->Results("jobs/b", 0, 1).status().code());
}

TEST_F(StoreTest, HistorySurvivesReopening) {
  NewJob job = MakeJob("a");
  job.request_id = "request";
  v1::CaseSpec& spec = *job.job.mutable_spec()->mutable_cases()->add_cases();
  spec.mutable_copy()->set_count(8);
  job.plans.push_back({.device = "cpu:0", .cases = {spec}, .required = {"copy builtin fp32"}});
  {
    auto store = Open();
    ASSERT_TRUE(store->CreateJob(job).ok());
    JobUpdate update = Results("a", 0, 2);
    update.events.push_back(ResultEvent(2, v1::VERDICT_FAILED));
    ASSERT_TRUE(store->Apply(update).ok());
    const auto plans = store->Plans("jobs/a");
    ASSERT_TRUE(plans.ok());
    ASSERT_EQ(plans->size(), 1u);
    EXPECT_TRUE(MessageDifferencer::Equals((*plans)[0].cases[0], spec));
    EXPECT_THAT((*plans)[0].required, testing::ElementsAre("copy builtin fp32"));

    JobUpdate end{.name = "jobs/a"};
    end.job.emplace();
    end.job->set_state(v1::JOB_STATE_FINISHED);
    end.job->set_verdict(v1::VERDICT_FAILED);
    end.job->mutable_end_time()->set_seconds(1'700'000'002);
    end.job->add_findings()->set_reason("unsupported");
    end.events.emplace_back().mutable_finished();
    ASSERT_TRUE(store->Apply(end).ok());
    EXPECT_TRUE(store->Plans("jobs/a")->empty()) << "an ended job needs no plan";
  }
  auto store = Open();
  for (const auto& read : {store->GetJob("jobs/a"), store->FindRequest("request")}) {
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(MessageDifferencer::Equals(read->spec(), job.job.spec()));
    EXPECT_EQ(read->state(), v1::JOB_STATE_FINISHED);
    EXPECT_EQ(read->counts().passed(), 2);
    EXPECT_EQ(read->counts().failed(), 1);
    EXPECT_EQ(read->counts().total(), 3);
    EXPECT_EQ(read->last_sequence(), 4);
    EXPECT_EQ(read->create_time().nanos(), 123'456'789);
    EXPECT_FALSE(read->has_start_time());
    EXPECT_EQ(read->findings(0).reason(), "unsupported");
  }
  const auto events = store->Events("jobs/a", 1, 100);
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->size(), 3u);
  EXPECT_EQ((*events)[0].sequence(), 2);
  EXPECT_EQ((*events)[0].case_result().name(), "case 1");
  EXPECT_EQ((*events)[2].finished().job().verdict(), v1::VERDICT_FAILED);
  EXPECT_FALSE((*events)[2].finished().job().spec().has_cases()) << "the bulk is GetJob's";
  const auto results = store->Results("jobs/a", 1, 1);
  ASSERT_EQ(results->size(), 1u);
  EXPECT_EQ((*results)[0].index(), 1);
}

TEST_F(StoreTest, ListingsAreFilteredAndPagedNewestFirst) {
  auto store = Open();
  for (int n = 0; n < 5; ++n) {
    NewJob job = MakeJob(absl::StrCat(n));
    if (n % 2 == 0) job.job.set_suite("smoke");
    ASSERT_TRUE(store->CreateJob(job).ok());
  }
  JobQuery query{.limit = 2};
  std::string names;
  do {
    const auto page = store->ListJobs(query);
    ASSERT_TRUE(page.ok());
    for (const v1::Job& job : page->jobs) absl::StrAppend(&names, job.name(), " ");
    query.before = page->next;
  } while (query.before != 0);
  EXPECT_EQ(names, "jobs/4 jobs/3 jobs/2 jobs/1 jobs/0 ");
  EXPECT_EQ(store->ListJobs({.suite = "smoke"})->jobs.size(), 3u);
  EXPECT_EQ(store->ListJobs({.state = v1::JOB_STATE_RUNNING})->jobs.size(), 0u);
  EXPECT_EQ(store->ListJobs({.labels = {{"team", "3"}}})->jobs.size(), 1u);
  EXPECT_EQ(store->ListJobs({.labels = {{"team", "3"}, {"team", "4"}}})->jobs.size(), 0u);
}

TEST_F(StoreTest, OneBadWriteDoesNotTakeItsNeighboursWithIt) {
  auto store = Open();
  ASSERT_TRUE(store->CreateJob(MakeJob("a", 100)).ok());
  std::latch left(40);
  int failed = 0;
  for (int n = 0; n < 40; ++n) {
    // Every fourth repeats an index that is taken.
    store->Submit(Results("a", n - (n % 4 == 3), n - (n % 4 == 3) + 1),
                  [&](const absl::Status& status, std::int64_t) {
                    failed += status.ok() ? 0 : 1;
                    left.count_down();
                  });
  }
  left.wait();
  EXPECT_EQ(failed, 10);
  const auto events = store->Events("jobs/a", 0, 100);
  ASSERT_EQ(events->size(), 30u);
  for (std::size_t n = 0; n < events->size(); ++n) {
    EXPECT_EQ((*events)[n].sequence(), static_cast<std::int64_t>(n) + 1) << "no gaps";
  }
  EXPECT_EQ(store->GetJob("jobs/a")->counts().passed(), 30);
}

TEST_F(StoreTest, AnUpdateThatCanWaitKeepsItsPlaceAndIsWrittenWithoutAnother) {
  const std::unique_ptr<Store> store = Open();
  ASSERT_TRUE(store->CreateJob(MakeJob("a")).ok());
  std::vector<std::int64_t> sequences;  // the writer's, until the last is answered
  std::promise<void> last;
  const auto note = [&](const absl::Status& status, std::int64_t sequence) {
    EXPECT_TRUE(status.ok()) << status;
    sequences.push_back(sequence);
    if (sequences.size() == 3) last.set_value();
  };
  const auto submit = [&](int index, bool can_wait) {
    JobUpdate update = Results("a", index, index + 1);
    update.can_wait = can_wait;
    store->Submit(std::move(update), note);
  };
  submit(0, true);
  submit(1, false);
  submit(2, true);
  ASSERT_EQ(last.get_future().wait_for(std::chrono::minutes(2)), std::future_status::ready);
  EXPECT_EQ(sequences, (std::vector<std::int64_t>{1, 2, 3}));
}

// A device may have a result before the job is on disk. The result is then kept after the job, or
// not at all: no store may ever hold a result without its job.
TEST_F(StoreTest, UpdatesSubmittedWhileTheirJobIsWrittenShareItsFate) {
  auto store = Open();
  NewJob job = MakeJob("a");
  job.request_id = "r";
  std::promise<std::pair<absl::Status, std::int64_t>> kept, refused;
  const auto submit = [&](const std::string& id, auto& answer) {
    store->Submit(Results(id, 0, 2), [&answer](const absl::Status& status, std::int64_t sequence) {
      answer.set_value({status, sequence});
    });
  };
  ASSERT_TRUE(store->CreateJob(job, [&] { submit("a", kept); }).ok());
  const auto [status, sequence] = kept.get_future().get();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(sequence, 2);
  EXPECT_EQ(store->GetJob("jobs/a")->counts().passed(), 2);
  job.job.set_name("jobs/b");
  EXPECT_TRUE(absl::IsAlreadyExists(store->CreateJob(job, [&] { submit("b", refused); })));
  EXPECT_TRUE(absl::IsNotFound(refused.get_future().get().first));
  EXPECT_TRUE(absl::IsNotFound(store->Results("jobs/b", 0, 10).status()));
  EXPECT_EQ(store->Results("jobs/a", 0, 10)->size(), 2u);
}

TEST_F(StoreTest, TakenNamesAndRequestsAndUnknownJobsAreSaid) {
  auto store = Open();
  NewJob job = MakeJob("a");
  job.request_id = "r";
  ASSERT_TRUE(store->CreateJob(job).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store->CreateJob(MakeJob("a"))));
  job.job.set_name("jobs/b");
  EXPECT_TRUE(absl::IsAlreadyExists(store->CreateJob(job)));
  EXPECT_TRUE(absl::IsNotFound(store->GetJob("jobs/b").status()));
  EXPECT_TRUE(absl::IsNotFound(store->Apply(Results("b", 0, 1))));
  ASSERT_TRUE(store->DeleteJob("jobs/a").ok());
  EXPECT_TRUE(absl::IsNotFound(store->GetJob("jobs/a").status()));
}

TEST_F(StoreTest, DamagedFileIsMovedAsideAndSaid) {
  {
    auto store = Open();
    for (int n = 0; n < 50; ++n) ASSERT_TRUE(store->CreateJob(MakeJob(absl::StrCat(n))).ok());
  }
  {
    std::fstream file(DatabasePath(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    for (int n = 0; n < 8192; ++n) file.put('\x5a');
  }
  auto store = Open();
  ASSERT_EQ(store->notices().size(), 1u);
  EXPECT_THAT(store->notices()[0], HasSubstr(DatabasePath() + ".corrupt-"));
  EXPECT_TRUE(store->ListJobs({})->jobs.empty());
  ASSERT_TRUE(store->CreateJob(MakeJob("new")).ok());
  int aside = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    aside += entry.path().filename().string().starts_with("assay.db.corrupt-") ? 1 : 0;
  }
  EXPECT_GE(aside, 1);
}

TEST_F(StoreTest, FileThatIsNoDatabaseIsMovedAside) {
  std::ofstream(DatabasePath()) << std::string(10'000, 'z');
  auto store = Open();
  ASSERT_EQ(store->notices().size(), 1u);
  EXPECT_THAT(store->notices()[0], HasSubstr("not a database"));
}

TEST_F(StoreTest, NewerSchemaIsRefusedAndLeftAlone) {
  { auto store = Open(); }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(DatabasePath().c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA user_version = 7", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  const absl::Status status = OpenError();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("newer version (schema 7"));
  EXPECT_THAT(std::string(OpenError().message()), HasSubstr("newer")) << "it was not replaced";
}

TEST_F(StoreTest, SecondDaemonIsRefusedByPid) {
  auto store = Open();
  const absl::Status status = OpenError();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("pid ", getpid())));
}

TEST_F(StoreTest, ReadOnlyFolderIsSaidWithItsPath) {
  ASSERT_EQ(chmod(folder_.c_str(), 0555), 0);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    // Root may write anywhere: become nobody first.
    if (getuid() == 0 && setuid(65534) != 0) _exit(2);
    const absl::Status status = OpenError();
    const std::string text = status.ToString();
    const bool written = write(pipes[1], text.data(), text.size()) > 0;
    _exit(written && absl::IsPermissionDenied(status) ? 0 : 1);
  }
  int code = 0;
  waitpid(child, &code, 0);
  close(pipes[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(pipes[0], text.data(), 4096))));
  close(pipes[0]);
  chmod(folder_.c_str(), 0755);
  EXPECT_EQ(code, 0) << text;
  EXPECT_THAT(text, HasSubstr(folder_));
  EXPECT_THAT(text, HasSubstr("Permission denied"));
}

TEST_F(StoreTest, WhatWasReportedSurvivesAKill) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = Store::Open({.folder = folder_});
    if (!store.ok() || !(*store)->CreateJob(MakeJob("a", 1 << 20)).ok()) _exit(1);
    for (int n = 0;; ++n) {
      (*store)->Submit(Results("a", n, n + 1),
                       [&pipes](const absl::Status& status, std::int64_t sequence) {
                         const auto told = static_cast<std::int32_t>(sequence);
                         if (!status.ok() || write(pipes[1], &told, sizeof told) < 0) _exit(1);
                       });
    }
  }
  close(pipes[1]);
  std::int32_t last = 0;
  for (std::int32_t told = 0; last < 3000 && read(pipes[0], &told, sizeof told) == sizeof told;) {
    last = told;
  }
  kill(child, SIGKILL);
  for (std::int32_t told = 0; read(pipes[0], &told, sizeof told) == sizeof told;) last = told;
  waitpid(child, nullptr, 0);
  close(pipes[0]);
  ASSERT_GE(last, 3000);
  auto store = Open();
  EXPECT_TRUE(store->notices().empty());
  const auto job = store->GetJob("jobs/a");
  ASSERT_TRUE(job.ok());
  EXPECT_GE(job->last_sequence(), last);
  EXPECT_EQ(job->counts().passed(), job->last_sequence());
  EXPECT_EQ(store->ResultIndices("jobs/a")->size(), static_cast<std::size_t>(job->last_sequence()));
}

v1::Baseline MakeBaseline(const std::string& id, int results) {
  v1::Baseline baseline;
  baseline.set_name("baselines/" + id);
  baseline.set_model("a processor");
  baseline.set_case_count(results);
  for (int n = 0; n < results; ++n) {
    v1::CaseResult& result = *baseline.add_results();
    result.set_name(absl::StrCat("case ", n));
    result.mutable_bench()->set_median_seconds(1e-3 * (n + 1));
  }
  return baseline;
}

TEST_F(StoreTest, BaselinesSurviveReopeningAndAreListedWithoutTheirResults) {
  const v1::Baseline first = MakeBaseline("first", 2);
  {
    auto store = Open();
    ASSERT_TRUE(store->CreateBaseline(first).ok());
    ASSERT_TRUE(store->CreateBaseline(MakeBaseline("second", 1)).ok());
    ASSERT_TRUE(store->CreateBaseline(MakeBaseline("third", 1)).ok());
    const absl::Status again = store->CreateBaseline(MakeBaseline("first", 9));
    EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
    EXPECT_THAT(std::string(again.message()), HasSubstr("baselines/first"));
  }
  auto store = Open();
  EXPECT_TRUE(MessageDifferencer::Equals(store->GetBaseline("baselines/first").value(), first));
  const auto page = store->ListBaselines(0, 2);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->baselines.size(), 2u);
  EXPECT_EQ(page->baselines[0].name(), "baselines/third");
  EXPECT_EQ(page->baselines[1].name(), "baselines/second");
  EXPECT_EQ(page->baselines[0].results_size(), 0);
  EXPECT_EQ(page->baselines[0].case_count(), 1);
  const auto rest = store->ListBaselines(page->next, 2);
  ASSERT_EQ(rest->baselines.size(), 1u);
  EXPECT_EQ(rest->baselines[0].name(), "baselines/first");
  EXPECT_EQ(rest->next, 0);
  EXPECT_TRUE(store->DeleteBaseline("baselines/first").ok());
  EXPECT_TRUE(absl::IsNotFound(store->DeleteBaseline("baselines/first")));
  EXPECT_TRUE(absl::IsNotFound(store->GetBaseline("baselines/first").status()));
}

TEST_F(StoreTest, AStoreOfTheFirstVersionIsBroughtUpToDate) {
  {
    auto store = Open();
    ASSERT_TRUE(store->CreateJob(MakeJob("old")).ok());
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(DatabasePath().c_str(), &db), SQLITE_OK);
  ASSERT_EQ(
      sqlite3_exec(db, "DROP TABLE baselines; PRAGMA user_version = 1", nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(db);
  auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(store->notices().empty());
  EXPECT_TRUE(store->GetJob("jobs/old").ok());
  EXPECT_TRUE(std::filesystem::exists(DatabasePath() + ".v1")) << "what the migration changed";
  EXPECT_TRUE(store->CreateBaseline(MakeBaseline("new", 1)).ok());
  EXPECT_TRUE(store->GetBaseline("baselines/new").ok());
}

}  // namespace
}  // namespace assay::server
