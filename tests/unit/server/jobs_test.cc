#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <thread>

#include "google/rpc/error_details.pb.h"
#include "kernels/numerics/cat.h"
#include "server/jobs/job_manager.h"
#include "server/store/store.h"
#include "tests/unit/server/counting_metrics.h"
#include "tests/unit/server/fake_executor.h"

namespace assay {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSuite[] = R"toml(
name = "small"
title = "Two copies"
version = "1"

[[require]]
op = "copy"
provider = "fast"
dtype = "fp32"
backend = "cpu"

[[case]]
op = "copy"
count = 8
dtype = "fp32"
)toml";

v1::JobSpec Copies(int cases, std::string_view provider = "builtin") {
  v1::JobSpec spec;
  for (int n = 0; n < cases; ++n) {
    v1::CaseSpec& c = *spec.mutable_cases()->add_cases();
    c.mutable_copy()->set_count(8);
    c.set_dtype(v1::DTYPE_FP32);
    c.set_provider(std::string(provider));
    c.set_name(Cat("copy ", n));
  }
  return spec;
}

// The fields a refusal names.
std::map<std::string, std::string> Violations(const absl::Status& status) {
  std::map<std::string, std::string> fields;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest request;
  if (payload && request.ParseFromString(std::string(*payload))) {
    for (const auto& v : request.field_violations()) fields[v.field()] = v.description();
  }
  return fields;
}

// Blocks until the watch has said all it has to say.
class EventReader {
 public:
  EventReader(JobManager& manager, std::string_view name, std::int64_t after = 0) {
    auto opened = manager.Watch(name, after, [this] {
      const std::lock_guard guard(mutex_);
      woken_ = true;
      changed_.notify_all();
    });
    if (opened.ok()) {
      watch_ = *std::move(opened);
    } else {
      status_ = opened.status();
    }
  }

  // The next stored event; nothing at the end, on an error, or after 20 seconds.
  std::optional<v1::JobEvent> Next() {
    while (watch_ != nullptr && status_.ok()) {
      v1::JobEvent event;
      const auto next = watch_->Read(&event);
      if (!next.ok()) {
        status_ = next.status();
      } else if (*next == JobWatch::Next::kEnd) {
        return std::nullopt;
      } else if (*next == JobWatch::Next::kEvent) {
        if (event.sequence() > 0) return event;
        progress_.push_back(event.progress());
      } else {
        std::unique_lock guard(mutex_);
        if (!changed_.wait_for(guard, std::chrono::seconds(20), [this] { return woken_; })) {
          status_ = absl::DeadlineExceededError("no event came");
        }
        woken_ = false;
      }
    }
    return std::nullopt;
  }
  std::vector<v1::JobEvent> Rest() {
    std::vector<v1::JobEvent> all;
    while (std::optional<v1::JobEvent> event = Next()) all.push_back(*event);
    return all;
  }
  const absl::Status& status() const { return status_; }
  const std::vector<v1::CaseProgress>& progress() const { return progress_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  absl::Status status_;
  std::vector<v1::CaseProgress> progress_;
  std::unique_ptr<JobWatch> watch_;  // last: its end may still wake
};

class JobsTest : public testing::Test {
 protected:
  JobsTest() {
    char path[] = "/tmp/assay-jobs-XXXXXX";
    folder_ = mkdtemp(path);
    cpu_ = &AddDevice("cpu:0");
    options_.suites_folder = folder_ + "/suites";
    std::filesystem::create_directory(options_.suites_folder);
    std::ofstream(options_.suites_folder + "/small.toml") << kSuite;
  }
  ~JobsTest() override {
    manager_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  FakeExecutor& AddDevice(const std::string& id) {
    auto executor = std::make_unique<FakeExecutor>(id);
    executor->AddKernel("copy", "builtin");
    executor->AddKernel("copy", "other");
    executor->AddKernel("copy", "absent", false);
    executor->AddKernel("copy", "planted/wrong-tile");
    executor->AddKernel("gemm", "builtin");
    FakeExecutor& added = *executor;
    devices_.executors.push_back(std::move(executor));
    return added;
  }
  void OpenStore(std::int64_t max_bytes = 0) {
    auto store = Store::Open({.folder = folder_ + "/state", .max_bytes = max_bytes});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Start() {
    if (store_ == nullptr) OpenStore();
    manager_ = JobManager::Make(*store_, devices_, nullptr, options_);
    ASSERT_TRUE(manager_->Start().ok());
  }
  // As after the daemon's death: what is in memory is gone.
  void Restart() {
    manager_.reset();
    store_.reset();
    Start();
  }
  std::string Create(const v1::JobSpec& spec, std::string_view request = "") {
    const auto job = manager_->Create(spec, request);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->name() : "";
  }
  v1::Job Finish(const std::string& name) {
    EventReader(*manager_, name).Rest();
    return manager_->Get(name).value_or(v1::Job());
  }

  std::string folder_;
  DeviceSet devices_;
  FakeExecutor* cpu_ = nullptr;
  JobOptions options_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<JobManager> manager_;
};

TEST_F(JobsTest, JobRunsFromCreationToItsLastEvent) {
  Start();
  const std::string name = Create(Copies(3));
  EventReader reader(*manager_, name);
  const std::vector<v1::JobEvent> events = reader.Rest();
  ASSERT_TRUE(reader.status().ok()) << reader.status();
  ASSERT_EQ(events.size(), 7u);
  for (std::size_t n = 0; n < events.size(); ++n) {
    EXPECT_EQ(events[n].sequence(), static_cast<std::int64_t>(n) + 1);
    EXPECT_EQ(events[n].job(), name);
    EXPECT_TRUE(events[n].has_create_time());
  }
  EXPECT_EQ(events[0].state_change().to(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(events[1].started().total(), 3);
  EXPECT_EQ(events[4].case_result().index(), 2);
  EXPECT_EQ(events[5].state_change().to(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(events[6].finished().job().verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(events[6].finished().job().counts().passed(), 3);
  const v1::Job job = *manager_->Get(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_FINISHED);
  EXPECT_TRUE(job.has_start_time() && job.has_end_time());
  EXPECT_EQ(manager_->QueueDepth("cpu:0"), 0);
}

TEST_F(JobsTest, ExecutorGetsEveryDefault) {
  Start();
  v1::JobSpec spec = Copies(1, "");
  spec.mutable_cases()->mutable_cases(0)->clear_name();
  spec.set_seed(7);
  spec.mutable_case_deadline()->set_seconds(5);
  EXPECT_EQ(Finish(Create(spec)).counts().total(), 2) << "builtin and other; not absent or planted";
  ASSERT_EQ(cpu_->executed().size(), 2u);
  const v1::CaseSpec run = cpu_->executed()[1];
  EXPECT_EQ(run.provider(), "other");
  EXPECT_EQ(run.seed(), 7u);
  EXPECT_EQ(run.mode(), v1::MODE_VALIDATE);
  EXPECT_EQ(run.repeats(), 1);
  EXPECT_EQ(run.criterion(), v1::CRITERION_BOUND);
  EXPECT_EQ(run.out_dtype(), v1::DTYPE_FP32);
  EXPECT_EQ(run.deadline().seconds(), 5);
  EXPECT_THAT(run.name(), HasSubstr("other"));
  EXPECT_EQ(cpu_->last_limit(), absl::Seconds(5));
}

// Kernels that are wrong on purpose run beside the others where a filter names them.
TEST_F(JobsTest, AFilterThatNamesAPlantedKernelRunsIt) {
  Start();
  v1::JobSpec spec = Copies(1, "");
  spec.mutable_filter()->add_providers("builtin");
  spec.mutable_filter()->add_providers("planted/wrong-tile");
  EXPECT_EQ(Finish(Create(spec)).counts().total(), 2);
  ASSERT_EQ(cpu_->executed().size(), 2u);
  EXPECT_EQ(cpu_->executed()[0].provider(), "builtin");
  EXPECT_EQ(cpu_->executed()[1].provider(), "planted/wrong-tile");
}

TEST_F(JobsTest, HigherPriorityFirstThenTheOlder) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string running = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  std::vector<std::string> names;
  for (const int priority : {0, 5, 0, 100, -100, 5}) {
    v1::JobSpec spec = Copies(1);
    spec.mutable_cases()->mutable_cases(0)->set_name(Cat("p", priority, " ", names.size()));
    spec.set_priority(priority);
    names.push_back(Create(spec));
  }
  EXPECT_EQ(manager_->QueueDepth("cpu:0"), 7);
  gate.Let(7);
  for (const std::string& name : names) Finish(name);
  std::vector<std::string> order;
  for (const v1::CaseSpec& spec : cpu_->executed()) order.push_back(spec.name());
  EXPECT_THAT(order, ElementsAre("copy 0", "p100 3", "p5 1", "p5 5", "p0 0", "p0 2", "p-100 4"));
}

TEST_F(JobsTest, CancelEndsTheRunningCaseAndSkipsTheRest) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(5));
  const std::string waiting = Create(Copies(2));
  gate.Let(2);
  ASSERT_TRUE(gate.AwaitArrival());
  ASSERT_TRUE(manager_->Cancel(waiting).ok());
  const v1::Job never_ran = Finish(waiting);
  EXPECT_EQ(never_ran.state(), v1::JOB_STATE_CANCELLED) << "without waiting for its turn";
  EXPECT_EQ(never_ran.counts().skipped(), 2);
  EXPECT_FALSE(never_ran.has_start_time());
  ASSERT_TRUE(manager_->Cancel(name).ok());
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(job.counts().passed(), 2);
  EXPECT_EQ(job.counts().skipped(), 3);
  EXPECT_EQ(job.findings(0).reason(), "cancelled");
  const auto results = manager_->Results(name, 0, 10);
  ASSERT_EQ(results->size(), 5u);
  EXPECT_EQ((*results)[2].findings(0).reason(), "cancelled");
  const auto again = manager_->Cancel(name);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->last_sequence(), job.last_sequence()) << "ending an ended job changes nothing";
}

TEST_F(JobsTest, JobDeadlineSkipsTheRestWhetherRunningOrWaiting) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  v1::JobSpec spec = Copies(3);
  spec.mutable_deadline()->set_nanos(50'000'000);
  const std::string running = Create(spec);
  ASSERT_TRUE(gate.AwaitArrival());
  const std::string waiting = Create(spec);
  for (const std::string& name : {running, waiting}) {
    const v1::Job job = Finish(name);
    EXPECT_EQ(job.state(), v1::JOB_STATE_FINISHED);
    EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
    EXPECT_EQ(job.counts().skipped(), 3);
    EXPECT_EQ(job.findings(0).reason(), "deadline");
    EXPECT_EQ((*manager_->Results(name, 0, 1))[0].findings(0).reason(), "deadline");
  }
}

TEST_F(JobsTest, SameRequestIsTheSameJob) {
  Start();
  const std::string name = Create(Copies(2), "nightly-1");
  EXPECT_EQ(Create(Copies(2), "nightly-1"), name);
  Finish(name);
  EXPECT_EQ(Create(Copies(2), "nightly-1"), name);
  EXPECT_EQ(manager_->List({})->jobs.size(), 1u);
  const auto other = manager_->Create(Copies(3), "nightly-1");
  EXPECT_THAT(Violations(other.status())["request_id"], HasSubstr(name));
  Restart();
  EXPECT_EQ(Create(Copies(2), "nightly-1"), name) << "after a restart, too";
  EXPECT_TRUE(Violations(manager_->Create(Copies(1), std::string(129, 'x')).status())
                  .contains("request_id"));
}

TEST_F(JobsTest, OneRequestSentByManyAtOnceMakesOneJob) {
  Start();
  std::vector<std::string> names(8);
  {
    std::vector<std::jthread> callers;
    for (std::string& name : names) {
      callers.emplace_back([&] { name = Create(Copies(1), "once"); });
    }
  }
  for (const std::string& name : names) EXPECT_EQ(name, names[0]);
  EXPECT_EQ(manager_->List({})->jobs.size(), 1u);
  EXPECT_EQ(Finish(names[0]).verdict(), v1::VERDICT_PASSED);
}

TEST_F(JobsTest, EveryBadFieldIsNamedAtOnce) {
  Start();
  v1::JobSpec spec = Copies(4);
  spec.mutable_cases()->mutable_cases(1)->mutable_copy()->set_count(0);
  spec.mutable_cases()->mutable_cases(2)->set_provider("biultin");
  spec.mutable_cases()->mutable_cases(2)->mutable_deadline()->set_seconds(-1);
  spec.mutable_cases()->mutable_cases(3)->clear_problem();
  spec.set_priority(101);
  spec.mutable_deadline();
  spec.mutable_case_deadline()->set_seconds(-3);
  spec.mutable_filter()->add_ops("gem");
  spec.mutable_filter()->add_providers("bultin");
  (*spec.mutable_labels())["k"] = std::string(129, 'v');
  const absl::Status status = manager_->Create(spec, "").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  std::map<std::string, std::string> fields = Violations(status);
  EXPECT_THAT(fields["spec.cases[1].copy.count"], HasSubstr("got 0"));
  EXPECT_THAT(fields["spec.cases[2].provider"], HasSubstr("did you mean \"builtin\""));
  EXPECT_THAT(fields["spec.cases[2].deadline"], HasSubstr("more than 0"));
  EXPECT_THAT(fields["spec.priority"], HasSubstr("101"));
  EXPECT_THAT(fields["spec.deadline"], HasSubstr("more than 0"));
  EXPECT_THAT(fields["spec.case_deadline"], HasSubstr("more than 0"));
  EXPECT_THAT(fields["spec.filter.ops[0]"], HasSubstr("did you mean \"gemm\""));
  EXPECT_THAT(fields["spec.filter.providers[0]"], HasSubstr("did you mean \"builtin\""));
  EXPECT_TRUE(fields.contains("spec.labels[\"k\"]"));
  EXPECT_EQ(std::count_if(fields.begin(), fields.end(),
                          [](const auto& f) { return f.first.starts_with("spec.cases[3]"); }),
            1);
  EXPECT_TRUE(manager_->List({})->jobs.empty());
}

TEST_F(JobsTest, RefusalOfThousandsOfFieldsFitsTrailingMetadata) {
  Start();
  v1::JobSpec spec = Copies(5000);
  for (v1::CaseSpec& c : *spec.mutable_cases()->mutable_cases()) c.mutable_copy()->set_count(-1);
  const absl::Status status = manager_->Create(spec, "").status();
  EXPECT_LT(status.message().size(), 1200u);
  EXPECT_LT(status.GetPayload("type.googleapis.com/google.rpc.BadRequest")->size(), 4500u);
  EXPECT_THAT(Violations(status)["spec"], HasSubstr("more"));
}

TEST_F(JobsTest, MoreCasesThanAllowedAreRefusedBeforeAndAfterExpansion) {
  Start();
  EXPECT_THAT(Violations(manager_->Create(Copies(10'001), "").status())["spec.cases"],
              HasSubstr("10001"));
  EXPECT_THAT(Violations(manager_->Create(Copies(5'001, "all"), "").status())["spec.cases"],
              HasSubstr("10000"));
}

TEST_F(JobsTest, UnknownSuiteAndDeviceAreNotFoundWithNearNames) {
  Start();
  v1::JobSpec spec;
  spec.set_suite("smal");
  absl::Status status = manager_->Create(spec, "").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("small"));
  spec = Copies(1);
  spec.set_device("cpu:1");
  status = manager_->Create(spec, "").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cpu:0"));
}

TEST_F(JobsTest, CaseThatCanNeverFitIsRefusedWithBytes) {
  cpu_->arena_bytes = 1000;
  Start();
  v1::JobSpec spec = Copies(2);
  spec.mutable_cases()->mutable_cases(1)->mutable_copy()->set_count(100);
  const absl::Status status = manager_->Create(spec, "").status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  // 100 floats in, 100 out, 16 bytes a reference.
  EXPECT_THAT(std::string(status.message()), HasSubstr("spec.cases[1]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 2400 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 1000"));
}

TEST_F(JobsTest, SuiteRunsAndItsMissingRequirementFailsTheJob) {
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    return spec.provider() == "fast" ? cpu_->Without(spec, v1::VERDICT_UNSUPPORTED, "unsupported")
                                     : cpu_->Passed(spec);
  };
  Start();
  v1::JobSpec spec;
  spec.set_suite("small");
  const v1::Job job = Finish(Create(spec));
  EXPECT_EQ(job.suite(), "small");
  EXPECT_EQ(job.counts().passed(), 2);
  EXPECT_EQ(job.counts().unsupported(), 1) << "required, so run although not available";
  EXPECT_EQ(job.verdict(), v1::VERDICT_FAILED);
  EXPECT_THAT(job.findings(0).message(), HasSubstr("copy fast fp32"));
  spec.mutable_filter()->add_providers("builtin");
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_PASSED) << "requirements filtered alike";
  spec.mutable_filter()->set_name("no such");
  EXPECT_TRUE(Violations(manager_->Create(spec, "").status()).contains("spec.filter"));
  spec.clear_filter();
  spec.set_suite_text("name = 3");
  EXPECT_TRUE(Violations(manager_->Create(spec, "").status()).contains("spec.suite_text"));
}

TEST_F(JobsTest, JobOnSeveralDevicesRunsItsCasesOnEach) {
  FakeExecutor& second = AddDevice("cpu:1");
  Start();
  v1::JobSpec spec = Copies(3);
  spec.set_device("cpu:*");
  const v1::Job job = Finish(Create(spec));
  EXPECT_EQ(job.counts().passed(), 6);
  EXPECT_THAT(job.devices(), ElementsAre("cpu:0", "cpu:1"));
  EXPECT_EQ(cpu_->executed().size(), 3u);
  EXPECT_EQ(second.executed().size(), 3u);
  const auto results = manager_->Results(job.name(), 0, 10);
  ASSERT_EQ(results->size(), 6u);
  EXPECT_EQ((*results)[3].device(), "cpu:1");
  EXPECT_EQ((*results)[3].index(), 3);
}

// Two runners tell of one job: its beginning must come first all the same.
TEST_F(JobsTest, EventsOfSeveralDevicesKeepTheirOrder) {
  AddDevice("cpu:1");
  Start();
  v1::JobSpec spec = Copies(1);
  spec.set_device("cpu:*");
  for (int n = 0; n < 100; ++n) {
    const std::vector<v1::JobEvent> events = EventReader(*manager_, Create(spec)).Rest();
    ASSERT_EQ(events.size(), 6u);
    ASSERT_EQ(events[0].state_change().to(), v1::JOB_STATE_RUNNING);
    ASSERT_TRUE(events[1].has_started());
  }
}

TEST_F(JobsTest, StartedTellsTheCasesOfEachOperator) {
  AddDevice("cpu:1");
  Start();
  v1::JobSpec spec = Copies(2);
  v1::CaseSpec& gemm = *spec.mutable_cases()->add_cases();
  gemm.mutable_gemm()->set_m(1);
  gemm.mutable_gemm()->set_n(1);
  gemm.mutable_gemm()->set_k(1);
  gemm.set_dtype(v1::DTYPE_FP32);
  gemm.set_provider("builtin");
  spec.set_device("cpu:*");
  const std::vector<v1::JobEvent> events = EventReader(*manager_, Create(spec)).Rest();
  ASSERT_GT(events.size(), 1u);
  const auto& counts = events[1].started().op_counts();
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts.at("copy"), 4);
  EXPECT_EQ(counts.at("gemm"), 2);
}

TEST_F(JobsTest, LongNamesAreRefused) {
  Start();
  v1::JobSpec spec = Copies(2);
  spec.mutable_cases()->mutable_cases(0)->set_name(std::string(256, 'x'));
  spec.mutable_cases()->mutable_cases(1)->set_name(std::string(257, 'x'));
  std::map<std::string, std::string> fields = Violations(manager_->Create(spec, "").status());
  EXPECT_EQ(fields.size(), 1u);
  EXPECT_THAT(fields["spec.cases[1].name"], HasSubstr("at most 256 bytes, got 257"));
  spec.set_suite(std::string(257, 'x'));
  EXPECT_TRUE(Violations(manager_->Create(spec, "").status()).contains("spec.suite"));
  spec.set_suite_text(Cat("name = \"", std::string(257, 'x'), "\"\ntitle = \"t\"\n",
                          "version = \"1\"\n[[case]]\nop = \"copy\"\ncount = 8\n",
                          "dtype = \"fp32\"\n"));
  EXPECT_TRUE(Violations(manager_->Create(spec, "").status()).contains("spec.suite_text: name"));
}

TEST_F(JobsTest, VerdictOfAJob) {
  std::map<std::string, v1::Verdict> says = {{"copy 0", v1::VERDICT_PASSED}};
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_verdict(says[spec.name()]);
    return result;
  };
  Start();
  const auto verdict = [&](v1::Verdict second) {
    says["copy 1"] = second;
    return Finish(Create(Copies(2))).verdict();
  };
  EXPECT_EQ(verdict(v1::VERDICT_PASSED), v1::VERDICT_PASSED);
  EXPECT_EQ(verdict(v1::VERDICT_UNSUPPORTED), v1::VERDICT_PASSED);
  EXPECT_EQ(verdict(v1::VERDICT_SKIPPED), v1::VERDICT_PASSED);
  EXPECT_EQ(verdict(v1::VERDICT_INCONCLUSIVE), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(verdict(v1::VERDICT_FAILED), v1::VERDICT_FAILED);
  EXPECT_EQ(verdict(v1::VERDICT_ERROR), v1::VERDICT_FAILED);
  says["copy 0"] = v1::VERDICT_UNSUPPORTED;
  EXPECT_EQ(verdict(v1::VERDICT_UNSUPPORTED), v1::VERDICT_INCONCLUSIVE) << "nothing ran";
}

TEST_F(JobsTest, FullQueueAsksToRetry) {
  options_.max_waiting_jobs = 3;
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  for (int n = 0; n < 3; ++n) Create(Copies(1));
  const absl::Status full = manager_->Create(Copies(1), "").status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(full.GetPayload("type.googleapis.com/google.rpc.RetryInfo").has_value());
  gate.Let(4);
  const JobPage page = *manager_->List({});
  for (const v1::Job& job : page.jobs) Finish(job.name());
  gate.Let(1);
  EXPECT_EQ(Finish(Create(Copies(1))).verdict(), v1::VERDICT_PASSED) << "there is room again";
}

TEST_F(JobsTest, UnknownJobsAndSequencesAreRefused) {
  Start();
  EXPECT_TRUE(absl::IsNotFound(manager_->Get("jobs/none").status()));
  EXPECT_TRUE(absl::IsNotFound(manager_->Cancel("jobs/none").status()));
  EXPECT_TRUE(absl::IsNotFound(manager_->Delete("jobs/none")));
  EXPECT_TRUE(absl::IsNotFound(manager_->Watch("jobs/none", 0, [] {}).status()));
  const std::string name = Create(Copies(1));
  const std::int64_t last = Finish(name).last_sequence();
  EXPECT_TRUE(
      Violations(manager_->Watch(name, last + 1, [] {}).status()).contains("after_sequence"));
  EXPECT_TRUE(Violations(manager_->Watch(name, -1, [] {}).status()).contains("after_sequence"));
  EXPECT_TRUE(EventReader(*manager_, name, last).Rest().empty()) << "ends at once";
}

TEST_F(JobsTest, OnlyEndedJobsAreDeleted) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  EXPECT_TRUE(absl::IsFailedPrecondition(manager_->Delete(name)));
  gate.Let(1);
  Finish(name);
  EXPECT_TRUE(manager_->Delete(name).ok());
  EXPECT_TRUE(absl::IsNotFound(manager_->Get(name).status()));
}

TEST_F(JobsTest, WatchersUnderLoadMissNothingAndSeeNothingTwice) {
  Start();
  constexpr int kCases = 3000;
  const std::string name = Create(Copies(kCases));
  std::vector<std::jthread> watchers;
  std::atomic<int> right{0};
  for (int n = 0; n < 6; ++n) {
    watchers.emplace_back([&, n] {
      // Reconnects again and again, each time after the last event it saw.
      std::int64_t last = 0;
      bool finished = false;
      int results = 0;
      while (!finished) {
        EventReader reader(*manager_, name, last);
        for (int taken = 0; taken < 100 * (n + 1); ++taken) {
          const std::optional<v1::JobEvent> event = reader.Next();
          if (!event || event->sequence() != last + 1) {
            finished = finished || !event;
            break;
          }
          ++last;
          results += event->has_case_result() ? 1 : 0;
          finished = event->has_finished();
          if (finished) break;
        }
        if (!reader.status().ok()) return;
      }
      right += last == kCases + 4 && results == kCases ? 1 : 0;
    });
  }
  watchers.clear();
  EXPECT_EQ(right, 6);
}

TEST_F(JobsTest, WatcherThatDoesNotReadHoldsNothingUp) {
  Start();
  const std::string name = Create(Copies(2000));
  EventReader asleep(*manager_, name);
  ASSERT_TRUE(asleep.Next().has_value());
  EXPECT_EQ(Finish(name).counts().passed(), 2000);
  EXPECT_EQ(asleep.Rest().size(), 2003u) << "and it finds everything later";
}

TEST_F(JobsTest, ProgressComesToWatchersThatAreUpToDate) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(1));
  EventReader reader(*manager_, name);
  ASSERT_TRUE(gate.AwaitArrival());
  reader.Next();
  reader.Next();
  std::jthread let([&] { gate.Let(1); });
  reader.Rest();
  ASSERT_FALSE(reader.progress().empty());
  EXPECT_EQ(reader.progress()[0].name(), "copy 0");
  EXPECT_EQ(reader.progress()[0].total(), 1);
}

// Ceilings take seconds, and would look like a kernel that hangs.
TEST_F(JobsTest, TheFirstTimedCaseSaysThatCeilingsAreMeasured) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const auto phase = [&](v1::Mode mode) {
    v1::JobSpec spec = Copies(1);
    spec.set_mode(mode);
    const std::string name = Create(spec);
    EXPECT_TRUE(gate.AwaitArrival());
    EventReader reader(*manager_, name);
    reader.Next();
    reader.Next();
    std::jthread let([&] { gate.Let(1); });
    reader.Rest();
    return reader.progress().empty() ? "no progress" : reader.progress()[0].phase();
  };
  EXPECT_EQ(phase(v1::MODE_VALIDATE), "");
  EXPECT_EQ(phase(v1::MODE_BENCHMARK), "measuring the ceilings of cpu:0");
  EXPECT_EQ(phase(v1::MODE_BOTH), "");
}

TEST_F(JobsTest, DrainEndsWhatRunsAndTakesNothingNew) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(2));
  v1::JobSpec later = Copies(2);
  later.set_resume(true);
  const std::string waiting = Create(later);
  const std::string dropped = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  std::jthread drain([&] { manager_->Drain(absl::Seconds(20)); });
  while (!manager_->draining()) std::this_thread::yield();
  gate.Let(2);
  drain.join();
  EXPECT_EQ(manager_->Get(name)->verdict(), v1::VERDICT_PASSED) << "it had its grace";
  EXPECT_EQ(manager_->Get(waiting)->state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(manager_->Get(dropped)->state(), v1::JOB_STATE_INTERRUPTED);
  EXPECT_TRUE(absl::IsUnavailable(manager_->Create(Copies(1), "").status()));
  EXPECT_TRUE(absl::IsUnavailable(manager_->Watch(waiting, 0, [] {}).status()));
  gate.Let(2);
  Restart();
  EXPECT_EQ(Finish(waiting).verdict(), v1::VERDICT_PASSED);
}

TEST_F(JobsTest, DrainWithoutGraceInterruptsAndLeavesResumableJobs) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  v1::JobSpec spec = Copies(4);
  spec.set_resume(true);
  const std::string name = Create(spec);
  gate.Let(2);
  ASSERT_TRUE(gate.AwaitArrival());
  EventReader reader(*manager_, name);
  manager_->Drain(absl::ZeroDuration());
  EXPECT_EQ(reader.Rest().size(), 4u);
  EXPECT_TRUE(absl::IsUnavailable(reader.status())) << reader.status();
  gate.Let(100);
  Restart();
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(job.counts().passed(), 4);
  EXPECT_EQ(cpu_->executed().size(), 5u) << "two before, the one that was ended, and two after";
}

// Runs a job in a child that is killed while it runs; the events it had seen are
// in the parent's hands afterwards.
class KilledDaemon : public JobsTest {
 protected:
  std::int64_t RunAndKill(const v1::JobSpec& spec) {
    int pipes[2];
    EXPECT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
      Start();
      EventReader reader(*manager_, Create(spec));
      while (std::optional<v1::JobEvent> event = reader.Next()) {
        const std::int64_t sequence = event->sequence();
        if (write(pipes[1], &sequence, sizeof sequence) < 0) _exit(1);
      }
      _exit(0);
    }
    close(pipes[1]);
    std::int64_t last = 0;
    const auto take = [&] { return read(pipes[0], &last, sizeof last) == sizeof last; };
    while (last < 500 && take()) {
    }
    kill(child, SIGKILL);
    while (take()) {
    }
    close(pipes[0]);
    waitpid(child, nullptr, 0);
    return last;
  }
};

TEST_F(KilledDaemon, EveryReportedEventIsThereAndTheJobIsInterrupted) {
  const std::int64_t last = RunAndKill(Copies(10'000));
  ASSERT_GE(last, 500);
  Start();
  const v1::Job job = manager_->List({})->jobs.at(0);
  EXPECT_EQ(job.state(), v1::JOB_STATE_INTERRUPTED);
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
  EventReader reader(*manager_, job.name());
  const std::vector<v1::JobEvent> events = reader.Rest();
  ASSERT_GE(static_cast<std::int64_t>(events.size()), last + 2);
  EXPECT_TRUE(events.back().has_finished());
  for (std::size_t n = 0; n < events.size(); ++n) {
    ASSERT_EQ(events[n].sequence(), static_cast<std::int64_t>(n) + 1);
  }
  EXPECT_EQ(job.counts().passed(), static_cast<int>(events.size()) - 4)
      << "two events before the results, two after";
}

TEST_F(KilledDaemon, ResumedJobRunsOnlyWhatIsLeft) {
  v1::JobSpec spec = Copies(10'000);
  spec.set_resume(true);
  ASSERT_GE(RunAndKill(spec), 500);
  OpenStore();
  const int had = store_->ListJobs({})->jobs.at(0).counts().passed();
  Start();
  const std::string name = manager_->List({})->jobs.at(0).name();
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(job.verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(job.counts().passed(), 10'000);
  EXPECT_EQ(static_cast<int>(cpu_->executed().size()), 10'000 - had);
}

TEST_F(JobsTest, FullDiskEndsTheJobAndTheDaemonLives) {
  OpenStore(1 << 20);
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_implementation(std::string(20'000, 'x'));
    return result;
  };
  Start();
  const std::string first = Create(Copies(20));
  EXPECT_EQ(Finish(first).verdict(), v1::VERDICT_PASSED);
  const std::string name = Create(Copies(100));
  EventReader reader(*manager_, name);
  reader.Rest();
  EXPECT_TRUE(absl::IsResourceExhausted(reader.status())) << reader.status();
  const v1::Job job = *manager_->Get(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_INTERRUPTED);
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(job.findings(0).reason(), "fault");
  // Big requests are refused, room is made, work goes on.
  v1::JobSpec large = Copies(3000);
  const absl::Status refused = manager_->Create(large, "").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  ASSERT_TRUE(manager_->Delete(first).ok());
  EXPECT_EQ(Finish(Create(Copies(2))).verdict(), v1::VERDICT_PASSED);
}

// A job whose results cannot be written while its other device is busy: nothing may
// wait for that device's turn, which never comes.
TEST_F(JobsTest, DrainEndsAnUnwritableJobThatWaitsForASecondDevice) {
  OpenStore(1 << 20);
  CaseGate gate;
  AddDevice("cpu:1").GateBy(gate);
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_implementation(std::string(20'000, 'x'));
    return result;
  };
  CountingMetrics metrics;
  manager_ = JobManager::Make(*store_, devices_, &metrics, options_);
  ASSERT_TRUE(manager_->Start().ok());
  v1::JobSpec busy = Copies(1);
  busy.set_device("cpu:1");
  Create(busy);
  ASSERT_TRUE(gate.AwaitArrival());
  v1::JobSpec spec = Copies(200);
  spec.set_device("cpu:*");
  const std::string name = Create(spec);
  EventReader reader(*manager_, name);
  reader.Rest();
  EXPECT_TRUE(absl::IsResourceExhausted(reader.status())) << reader.status();
  manager_->Drain(absl::ZeroDuration());
  int stored = 0;
  const auto results = manager_->Results(name, 0, 1000);
  ASSERT_TRUE(results.ok()) << results.status();
  for (int at = 0;;) {
    const auto page = manager_->Results(name, at, 1000);
    if (!page.ok() || page->empty()) break;
    stored += static_cast<int>(page->size());
    at = page->back().index() + 1;
  }
  EXPECT_GT(stored, 0);
  EXPECT_EQ(metrics.cases, stored) << "a result is counted once it is stored";
}

// Its score, and what becomes of its kernels, are the daemon's own: no text may claim it.
TEST_F(JobsTest, ASuiteOfAUsersOwnIsNotNamedSelftest) {
  Start();
  v1::JobSpec spec;
  std::string text = kSuite;
  spec.set_suite_text(text.replace(text.find("small"), 5, "selftest"));
  const auto fields = Violations(manager_->Create(spec, "").status());
  ASSERT_TRUE(fields.contains("spec.suite_text")) << fields.size();
  EXPECT_THAT(fields.at("spec.suite_text"), HasSubstr("selftest"));
}

TEST_F(JobsTest, EndedCasesAndJobsLeaveNothingInMemory) {
  Start();
  cpu_->remember = false;
  const auto heap_after_a_job = [&] {
    Finish(Create(Copies(3000)));
    // SQLite's page cache fills up to its own limit: not ours.
    return static_cast<double>(mallinfo2().uordblks) - static_cast<double>(sqlite3_memory_used());
  };
  heap_after_a_job();  // what is made once
  const double first = heap_after_a_job();
  double last = 0;
  for (int n = 0; n < 4; ++n) last = heap_after_a_job();
  EXPECT_LT(last - first, 64 << 10) << "12,000 cases, a kilobyte each, were kept";
}

}  // namespace
}  // namespace assay
