// Jobs whose kernel is a function of their caller's process: what they cannot have, and how their
// results are marked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>

#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// A caller that is there and says nothing, until it fails.
class Caller final : public CallerLink {
 public:
  NextMessage Take(v1::ValidateExternalRequest*) override { return NextMessage::kWait; }
  void SetWake(std::function<void()>) override {}
  bool Give(v1::ValidateExternalResponse*) override { return true; }
  std::optional<v1::Finding> failure() override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void Fail(v1::Finding why) override {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(why);
  }
  absl::Duration launch_deadline() const override { return absl::Seconds(1); }

 private:
  std::mutex mutex_;
  std::optional<v1::Finding> failure_;
};

v1::ExternalJob FunctionOf(const v1::JobSpec& spec) {
  v1::ExternalJob job;
  *job.mutable_spec() = spec;
  return job;
}

absl::StatusOr<v1::Job> CreateElsewhere(
    JobManager& manager, const v1::ExternalJob& job,
    const std::shared_ptr<CallerLink>& caller = std::make_shared<Caller>()) {
  return manager.CreateElsewhere(job, caller, [](int) { return std::shared_ptr<void>(); });
}

TEST_F(JobsTest, WhatAFunctionElsewhereCannotHaveIsRefused) {
  Start();
  v1::JobSpec spec = Copies(3, "");
  spec.mutable_cases()->mutable_cases(0)->set_provider("builtin");
  spec.mutable_cases()->mutable_cases(1)->set_mode(v1::MODE_BOTH);
  spec.mutable_cases()->mutable_cases(2)->set_min_efficiency(0.5);
  spec.set_mode(v1::MODE_BENCHMARK);
  spec.set_resume(true);
  spec.mutable_budget()->set_seconds(1);
  spec.set_baseline("baselines/a");
  spec.set_profiler("perf");
  v1::ExternalJob job = FunctionOf(spec);
  job.mutable_launch_deadline();
  const absl::Status status = CreateElsewhere(*manager_, job).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::map<std::string, std::string> fields = Violations(status);
  for (const char* field :
       {"spec.cases[0].provider", "spec.cases[1].mode", "spec.cases[2].min_efficiency", "spec.mode",
        "spec.resume", "spec.budget", "spec.baseline", "spec.profiler", "launch_deadline"}) {
    EXPECT_TRUE(fields.contains(field)) << field;
  }
  EXPECT_THAT(fields, SizeIs(9));
  EXPECT_TRUE(manager_->List({})->jobs.empty());
}

TEST_F(JobsTest, AFunctionElsewhereTakesListedCasesOnly) {
  Start();
  v1::JobSpec spec;
  spec.set_suite("small");
  std::map<std::string, std::string> fields =
      Violations(CreateElsewhere(*manager_, FunctionOf(spec)).status());
  EXPECT_THAT(fields["spec.cases"], HasSubstr("is required"));
}

TEST_F(JobsTest, AFunctionElsewhereIsForOneDevice) {
  AddDevice("cpu:1");
  Start();
  v1::JobSpec spec = Copies(1, "");
  spec.set_device("cpu:*");
  std::map<std::string, std::string> fields =
      Violations(CreateElsewhere(*manager_, FunctionOf(spec)).status());
  EXPECT_THAT(fields["spec.device"], HasSubstr("must name one device, got 2"));
}

TEST_F(JobsTest, NoOtherJobNamesTheProviderOfFunctionsElsewhere) {
  Start();
  std::map<std::string, std::string> fields =
      Violations(manager_->Create(Copies(1, "external"), "").status());
  EXPECT_THAT(fields["spec.cases[0].provider"], HasSubstr("unknown provider"));
}

TEST_F(JobsTest, ResultsOfAFunctionElsewhereAreMarked) {
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_repro("assay run copy");
    result.mutable_bench()->set_median_seconds(1);
    return result;
  };
  Start();
  const absl::StatusOr<v1::Job> job = CreateElsewhere(*manager_, FunctionOf(Copies(2, "")));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec().cases().cases(0).provider(), "external");
  EXPECT_EQ(EventReader(*manager_, job->name()).Rest().back().finished().job().verdict(),
            v1::VERDICT_PASSED);
  const auto results = manager_->Results(job->name(), 0, 10);
  ASSERT_TRUE(results.ok());
  ASSERT_THAT(*results, SizeIs(2));
  for (const v1::CaseResult& result : *results) {
    EXPECT_TRUE(result.ran_elsewhere());
    EXPECT_EQ(result.repro(), "");
    EXPECT_FALSE(result.has_bench());
  }
}

// The cases may see that the caller has gone before anyone has cancelled the job.
TEST_F(JobsTest, AJobWhoseCallerHasGoneIsCancelled) {
  const auto caller = std::make_shared<Caller>();
  const auto end_with = [&](v1::Reason reason) {
    cpu_->run = [&, reason](const v1::CaseSpec& spec, const CancelToken&) {
      caller->Fail(MakeFinding(reason, "of the caller"));
      return cpu_->Without(spec, v1::VERDICT_SKIPPED, reason);
    };
    const absl::StatusOr<v1::Job> job =
        CreateElsewhere(*manager_, FunctionOf(Copies(1, "")), caller);
    EXPECT_TRUE(job.ok()) << job.status();
    return EventReader(*manager_, job->name()).Rest().back().finished().job();
  };
  Start();
  const v1::Job slow = end_with(v1::REASON_TIMEOUT);
  EXPECT_EQ(slow.state(), v1::JOB_STATE_FINISHED);
  const v1::Job gone = end_with(v1::REASON_CANCELLED);
  EXPECT_EQ(gone.state(), v1::JOB_STATE_CANCELLED);
  ASSERT_THAT(gone.findings(), SizeIs(1));
  EXPECT_EQ(gone.findings(0).message(), "of the caller");
}

}  // namespace
}  // namespace assay::server
