// What a job manager refuses, and how it says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "server/plan/spec_check.h"
#include "server/plan/suite_cases.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

using testing::HasSubstr;

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

TEST_F(JobsTest, NamesAndLabelsThatATerminalObeysAreRefused) {
  Start();
  v1::JobSpec spec = Copies(1);
  spec.mutable_cases()->mutable_cases(0)->set_name("good\x1b[2J");
  (*spec.mutable_labels())["k"] = "fine";
  (*spec.mutable_labels())["team"] = "a\u202eb";
  (*spec.mutable_labels())["b\nad"] = "fine";
  std::map<std::string, std::string> fields = Violations(manager_->Create(spec, "").status());
  EXPECT_THAT(fields["spec.cases[0].name"], HasSubstr("no control characters"));
  EXPECT_THAT(fields["spec.cases[0].name"], HasSubstr("at byte 4"));
  EXPECT_THAT(fields["spec.labels[\"team\"]"], HasSubstr("at byte 1"));
  EXPECT_THAT(fields["spec.labels"], HasSubstr("at byte 1"));
  EXPECT_FALSE(fields.contains("spec.labels[\"k\"]"));
}

// A byte of a request is one of these, and each would be an error of its own.
TEST_F(JobsTest, AFilterOfTooManyEntriesIsOneError) {
  v1::JobSpec spec = Copies(1);
  for (int n = 0; n < 100'000; ++n) {
    spec.mutable_filter()->add_dtypes(v1::DTYPE_UNSPECIFIED);
    spec.mutable_filter()->add_ops("");
    spec.mutable_filter()->add_providers("");
  }
  std::vector<FieldError> errors;
  CheckJob(spec, {"builtin"}, JobOptions(), errors);
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].field, "spec.filter.ops");
  EXPECT_EQ(errors[1].field, "spec.filter.providers");
  EXPECT_EQ(errors[2].field, "spec.filter.dtypes");
  EXPECT_EQ(errors[2].message, "may hold at most 64 entries, got 100000");
}

TEST_F(JobsTest, TheListOfErrorsEnds) {
  v1::JobSpec spec = Copies(5000);
  for (v1::CaseSpec& c : *spec.mutable_cases()->mutable_cases()) c.mutable_copy()->set_count(-1);
  std::vector<FieldError> errors;
  EXPECT_LT(ReadCases(spec.cases(), errors).size(), 200u);
  EXPECT_GE(errors.size(), 100u);
  EXPECT_LT(errors.size(), 200u);
  for (int n = 0; n < 200; ++n) (*spec.mutable_labels())[Cat("\x01", n)] = "x";
  errors.clear();
  CheckJob(spec, {"builtin"}, JobOptions(), errors);
  EXPECT_EQ(errors.size(), 1u) << "labels beyond their number are not looked at";
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
  // 100 floats in, 100 out, 8 bytes a reference, which is exact.
  EXPECT_THAT(std::string(status.message()), HasSubstr("spec.cases[1]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 1600 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 1000"));
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
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("all clients together may have 3 jobs that wait (max-waiting-jobs)"));
  gate.Let(4);
  const JobPage page = *manager_->List({});
  for (const v1::Job& job : page.jobs) Finish(job.name());
  gate.Let(1);
  EXPECT_EQ(Finish(Create(Copies(1))).verdict(), v1::VERDICT_PASSED) << "there is room again";
}

// A job takes its place before it is stored, and gives it back if it is not taken.
TEST_F(JobsTest, JobsThatComeAtOnceDoNotFillTheQueueBeyondItsLimit) {
  options_.max_waiting_jobs = 2;
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string running = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  const auto refuse = [](int) { return absl::ResourceExhaustedError("no place"); };
  for (int n = 0; n < 3; ++n) EXPECT_FALSE(manager_->Create(Copies(1), "", refuse).ok());
  Meeting meeting;
  std::atomic<int> taken = 0, full = 0;
  {
    std::vector<std::jthread> callers;
    for (int n = 0; n < 5; ++n) {
      callers.emplace_back([&] {
        const auto job =
            manager_->Create(Copies(1), "", [&](int) -> absl::StatusOr<std::shared_ptr<void>> {
              meeting.Attend();
              return std::shared_ptr<void>();
            });
        ++(job.ok() ? taken : full);
        EXPECT_TRUE(job.ok() || absl::IsResourceExhausted(job.status())) << job.status();
      });
    }
  }
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(full, 3);
  gate.Let(1 + taken);
  const JobPage page = *manager_->List({});
  for (const v1::Job& job : page.jobs) Finish(job.name());
  gate.Let(1);
  EXPECT_EQ(Finish(Create(Copies(1))).verdict(), v1::VERDICT_PASSED) << "there is room again";
}

TEST_F(JobsTest, AProfilerIsOneOfThreeOfTheDevicesBackendAndForTimedCases) {
  AddDevice("cuda:0");
  Start();
  const auto refusal = [&](const std::string& profiler, const std::string& device,
                           v1::Mode mode = v1::MODE_BENCHMARK) {
    v1::JobSpec spec = Copies(1);
    spec.set_profiler(profiler);
    spec.set_device(device);
    spec.set_mode(mode);
    const absl::StatusOr<v1::Job> job = manager_->Create(spec, "");
    return job.ok() ? "" : Violations(job.status())["spec.profiler"];
  };
  EXPECT_EQ(refusal("perf", "cpu:0"), "");
  EXPECT_EQ(refusal("ncu", "cuda:0"), "");
  EXPECT_EQ(refusal("", "cpu:0", v1::MODE_VALIDATE), "");
  EXPECT_THAT(refusal("../../bin/sh", "cpu:0"), HasSubstr("got \"../../bin/sh\""));
  EXPECT_THAT(refusal("rocprofv3", "cpu:0"), HasSubstr("must be perf (on cpu), ncu (on cuda)"));
  EXPECT_THAT(refusal("ncu", "cpu:0"), HasSubstr("cpu:0 is a cpu device: ask for perf there"));
  EXPECT_THAT(refusal("rocprof", "cuda:*"), HasSubstr("ask for ncu there"));
  EXPECT_THAT(refusal("perf", "*"), HasSubstr("cuda:0 is a cuda device"));
  EXPECT_THAT(refusal("perf", "cpu:0", v1::MODE_VALIDATE), HasSubstr("no case is timed"));
}

TEST_F(JobsTest, UnknownJobsAndSequencesAreRefused) {
  Start();
  EXPECT_TRUE(absl::IsNotFound(manager_->Get("jobs/none").status()));
  EXPECT_TRUE(absl::IsNotFound(manager_->Cancel("jobs/none", "a test cancelled it").status()));
  EXPECT_TRUE(absl::IsNotFound(manager_->Delete("jobs/none")));
  EXPECT_TRUE(absl::IsNotFound(manager_->Watch("jobs/none", 0, [] {}).status()));
  const std::string name = Create(Copies(1));
  const std::int64_t last = Finish(name).last_sequence();
  EXPECT_TRUE(
      Violations(manager_->Watch(name, last + 1, [] {}).status()).contains("after_sequence"));
  EXPECT_TRUE(Violations(manager_->Watch(name, -1, [] {}).status()).contains("after_sequence"));
  EXPECT_TRUE(EventReader(*manager_, name, last).Rest().empty()) << "ends at once";
}

// Its score, and what becomes of its kernels, are the daemon's own: no text may claim it.
TEST_F(JobsTest, ASuiteOfAUsersOwnIsNotNamedSelftest) {
  Start();
  v1::JobSpec spec;
  std::string text = kSmallSuite;
  spec.set_suite_text(text.replace(text.find("small"), 5, "selftest"));
  const auto fields = Violations(manager_->Create(spec, "").status());
  ASSERT_TRUE(fields.contains("spec.suite_text")) << fields.size();
  EXPECT_THAT(fields.at("spec.suite_text"), HasSubstr("selftest"));
}

}  // namespace
}  // namespace assay::server
