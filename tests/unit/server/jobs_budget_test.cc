// Suites with a budget: what is run, what is left out, what fills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/time/clock.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

constexpr char kLadder[] = R"toml(
name = "ladder"
title = "A ladder"
version = "1"
budget = 3

[[case]]
op = "copy"
dtype = "fp32"
provider = "builtin"
shape = [{ count = 8 }, { count = 8000000 }]

[[fill]]
op = "copy"
dtype = "fp32"
provider = "builtin"
shape = [{ count = 8 }, { count = 9 }]
)toml";

class BudgetedJobs : public JobsTest {
 protected:
  BudgetedJobs() {
    cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
      absl::SleepFor(absl::Milliseconds(10));
      // What a case takes is predicted by this, and not by how long a busy machine slept.
      v1::CaseResult result = cpu_->Passed(spec);
      result.mutable_duration()->set_nanos(10'000'000);
      return result;
    };
  }
  v1::JobSpec Ladder() {
    v1::JobSpec spec;
    spec.set_suite_text(kLadder);
    spec.set_seed(40);
    return spec;
  }
};

TEST_F(BudgetedJobs, WhatIsLeftIsFilledWithNewSeeds) {
  Start();
  const std::string name = Create(Ladder());
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.verdict(), v1::VERDICT_PASSED);
  const auto results = manager_->Results(name, 0, 1000);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_GT(results->size(), 3u);
  EXPECT_EQ(results->at(0).spec().seed(), 40u);
  EXPECT_EQ(results->at(1).verdict(), v1::VERDICT_SKIPPED) << "a million times the first's work";
  EXPECT_EQ(results->at(1).findings(0).reason(), "budget");
  std::set<std::uint64_t> seeds;
  for (std::size_t n = 2; n < results->size(); ++n) {
    EXPECT_TRUE(results->at(n).spec().fill());
    if (results->at(n).spec().copy().count() == 8) seeds.insert(results->at(n).spec().seed());
  }
  EXPECT_EQ(*seeds.begin(), 41u);
  EXPECT_EQ(*seeds.rbegin(), 40u + seeds.size());
  EXPECT_EQ(job.counts().total(), static_cast<int>(results->size()));
  EXPECT_EQ(manager_->QueueDepth("cpu:0"), 0);
  Restart();
  EXPECT_EQ(manager_->Get(name)->counts().total(), static_cast<int>(results->size()));
}

// A provider that refuses a format does so in no time, however large the case.
TEST_F(BudgetedJobs, WhatIsNotSupportedIsNoMeasure) {
  cpu_->AddKernel("copy", "onednn");
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    if (spec.provider() == "onednn") {
      return cpu_->Without(spec, v1::VERDICT_UNSUPPORTED, v1::REASON_UNSUPPORTED);
    }
    v1::CaseResult result = cpu_->Passed(spec);
    result.mutable_duration()->set_seconds(1);
    return result;
  };
  Start();
  v1::JobSpec spec;
  spec.set_suite_text(
      "name = \"row\"\ntitle = \"A row\"\nversion = \"1\"\nbudget = 300\n"
      "[[case]]\nop = \"copy\"\ndtype = \"fp32\"\nprovider = [\"builtin\", \"onednn\"]\n"
      "shape = [{ count = 1000 }, { count = 8000000 }]\n");
  const std::string name = Create(spec);
  EXPECT_EQ(Finish(name).counts().passed(), 1);
  const auto results = manager_->Results(name, 0, 10);
  ASSERT_EQ(results->size(), 4u);
  EXPECT_EQ(results->at(1).verdict(), v1::VERDICT_UNSUPPORTED);
  EXPECT_EQ(results->at(2).verdict(), v1::VERDICT_SKIPPED);
}

TEST_F(BudgetedJobs, TheJobsOwnBudgetCounts) {
  Start();
  v1::JobSpec spec = Ladder();
  spec.mutable_budget()->set_nanos(1);
  const v1::Job job = Finish(Create(spec));
  EXPECT_EQ(job.counts().passed(), 0);
  EXPECT_EQ(job.counts().skipped(), 2);
  EXPECT_EQ(job.counts().total(), 2) << "what was to fill is not missed";
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
  spec.mutable_budget()->set_nanos(-1);
  EXPECT_EQ(Violations(manager_->Create(spec, "").status()).count("spec.budget"), 1u);
}

// Ever smaller ones.
std::string Counts(int from, int to) {
  std::string counts;
  for (int count = from; count >= to; --count) counts += Cat("{ count = ", count, " },");
  return counts;
}

// Time is of the results, so that nobody has to wait for it.
TEST_F(BudgetedJobs, WhatANewDaemonTakesUpHasSpentWhatTheOldOneDid) {
  CaseGate gate;
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken& cancel) {
    if (!gate.Wait(cancel)) return cpu_->Without(spec, v1::VERDICT_SKIPPED, v1::REASON_CANCELLED);
    v1::CaseResult result = cpu_->Passed(spec);
    result.mutable_duration()->set_seconds(3);
    result.mutable_spec()->set_pattern("normal");  // which a worker chose
    return result;
  };
  Start();
  v1::JobSpec spec;
  spec.set_suite_text(
      "name = \"row\"\ntitle = \"A row\"\nversion = \"1\"\nbudget = 40\n"
      "[[require]]\nop = \"copy\"\nprovider = \"builtin\"\ndtype = \"fp32\"\n"
      "[[case]]\nop = \"copy\"\ndtype = \"fp32\"\nprovider = \"builtin\"\n"
      "shape = [" +
      Counts(27, 12) + "]\n");
  spec.set_resume(true);
  const std::string name = Create(spec);
  gate.Let(13);
  ASSERT_TRUE(gate.AwaitArrival());
  manager_->Drain(absl::ZeroDuration());
  gate.Let(100);
  Restart();
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.counts().passed(), 13);
  EXPECT_EQ(job.counts().skipped(), 3);
  EXPECT_EQ(job.findings_size(), 0) << "the required kernel has run";
  const auto results = manager_->Results(name, 0, 100);
  ASSERT_EQ(results->size(), 16u);
  EXPECT_THAT(results->at(15).findings(0).message(),
              testing::HasSubstr("s of the budget of 40 s are left"));
}

TEST_F(BudgetedJobs, ARequiredKernelThatTheBudgetLeavesOutIsNotProven) {
  Start();
  v1::JobSpec spec;
  spec.set_suite_text(std::string(kLadder) +
                      "\n[[require]]\nop = \"copy\"\nprovider = \"builtin\"\ndtype = \"fp32\"\n"
                      "[[require]]\nop = \"gemm\"\nprovider = \"builtin\"\ndtype = \"fp32\"\n"
                      "[[case]]\nop = \"gemm\"\ndtype = \"fp32\"\nprovider = \"builtin\"\n"
                      "shape = { m = 8, n = 8, k = 8 }\n");
  spec.mutable_budget()->set_seconds(2);  // less than the first case takes
  cpu_->run = [this](const v1::CaseSpec& c, const CancelToken&) {
    absl::SleepFor(absl::Milliseconds(c.has_copy() ? 2050 : 1));
    return cpu_->Passed(c);
  };
  const v1::Job job = Finish(Create(spec));
  EXPECT_EQ(job.counts().passed(), 1);
  ASSERT_EQ(job.findings_size(), 1);
  EXPECT_EQ(job.findings(0).reason(), "budget");
  EXPECT_THAT(job.findings(0).message(), testing::HasSubstr("gemm builtin fp32"));
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
}

TEST_F(BudgetedJobs, ARetryOfTheRequestIsTheSameJob) {
  Start();
  EXPECT_EQ(Create(Ladder(), "once"), Create(Ladder(), "once"));
}

TEST_F(BudgetedJobs, WhatTheMemoryCannotHoldIsLeftOut) {
  cpu_->arena_bytes = 1 << 20;
  Start();
  const v1::Job job = Finish(Create(Ladder()));
  EXPECT_EQ(job.counts().skipped(), 0);
  EXPECT_GT(job.counts().passed(), 1);
}

}  // namespace
}  // namespace assay::server
