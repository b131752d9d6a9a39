// Jobs whose times are held against a baseline: what it has and they have not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "server/base/finding.h"
#include "server/base/job_events.h"
#include "server/baselines/baseline_times.h"
#include "server/pass/job_verdict.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class HeldJobs : public JobsTest {
 protected:
  HeldJobs() { Take(*cpu_, 1e-3); }
  // Timed cases take so long, but those of `lacking`, which it has not.
  static void Take(FakeExecutor& device, double seconds, const std::string& lacking = "") {
    device.run = [&device, seconds, lacking](const v1::CaseSpec& spec, const CancelToken&) {
      if (spec.provider() == lacking) {
        return device.Without(spec, v1::VERDICT_UNSUPPORTED, v1::REASON_UNSUPPORTED);
      }
      return TimedResult(device, spec, seconds);
    };
  }
  static v1::CaseResult TimedResult(FakeExecutor& device, const v1::CaseSpec& spec,
                                    double seconds) {
    v1::CaseResult result = device.Passed(spec);
    result.mutable_spec()->set_pattern("normal");  // as one says that has run
    v1::BenchStats& bench = *result.mutable_bench();
    bench.set_median_seconds(seconds);
    bench.set_p10_seconds(seconds);
    bench.set_p90_seconds(seconds);
    bench.set_samples(100);
    return result;
  }
  static v1::JobSpec Timed(std::string_view provider, int cases = 1) {
    v1::JobSpec spec = Copies(cases, provider);
    spec.set_mode(v1::MODE_BENCHMARK);
    spec.set_device("cpu:0");
    return spec;
  }
  std::vector<v1::CaseResult> ResultsOf(const v1::Job& job) {
    return manager_->Results(job.name(), 0, 100).value_or(std::vector<v1::CaseResult>());
  }
  // The same times as a caller has them.
  void HoldAgainst(const v1::Job& before, v1::JobSpec& spec) {
    v1::Baseline& baseline = *spec.mutable_inline_baseline();
    baseline = Describe(before);
    baseline.set_name("before.json");
    for (const v1::CaseResult& result : ResultsOf(before)) AddTiming(result, baseline);
  }
};

TEST_F(HeldJobs, NobodyGetsBackTheTimesThatItSent) {
  Start();
  v1::JobSpec spec = Timed("other");
  HoldAgainst(Finish(Create(spec)), spec);
  ASSERT_GT(spec.inline_baseline().results_size(), 0);
  *spec.mutable_inline_baseline()->add_untimed() = spec.inline_baseline().results(0);
  const std::string name = Create(spec, "nightly-1");
  const absl::StatusOr<v1::Job> again = manager_->Create(spec, "nightly-1");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->name(), name);
  for (const v1::Job& job : {*again, Finish(name), manager_->List({})->jobs.front(),
                             EventReader(*manager_, name).Rest().back().finished().job()}) {
    EXPECT_TRUE(job.spec().has_inline_baseline());
    EXPECT_EQ(job.spec().inline_baseline().results_size(), 0);
    EXPECT_EQ(job.spec().inline_baseline().untimed_size(), 0);
  }
}

TEST_F(HeldJobs, ACaseThatIsNotSupportedAnyMoreDoesNotPass) {
  Start();
  v1::JobSpec spec = Timed("other", 2);
  spec.mutable_cases()->mutable_cases(1)->set_provider("builtin");
  const v1::Job before = Finish(Create(spec));
  ASSERT_EQ(before.verdict(), v1::VERDICT_PASSED);
  HoldAgainst(before, spec);
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_PASSED);
  Take(*cpu_, 1e-3, "other");
  const v1::Job job = Finish(Create(spec));
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(job.counts().unsupported(), 0);
  const v1::CaseResult lost = ResultsOf(job).at(0);
  EXPECT_EQ(lost.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(lost.findings(0).reason(), "unsupported");
  EXPECT_EQ(lost.findings(0).message(), "said by the test; before.json has a time of it");
  EXPECT_THAT(lost.next_step(), HasSubstr("what there is of other"));
  // Alone, too; that its baseline has none of its cases would not be true.
  spec.mutable_cases()->mutable_cases()->RemoveLast();
  const v1::Job alone = Finish(Create(spec));
  EXPECT_EQ(alone.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_THAT(alone.findings(), IsEmpty());
}

TEST_F(HeldJobs, ARequiredKernelThatIsNotSupportedStillFails) {
  cpu_->AddKernel("copy", "fast");
  Start();
  v1::JobSpec spec;
  spec.set_suite("small");
  spec.set_mode(v1::MODE_BENCHMARK);
  const v1::Job before = Finish(Create(spec));
  ASSERT_EQ(before.verdict(), v1::VERDICT_PASSED);
  HoldAgainst(before, spec);
  Take(*cpu_, 1e-3, "fast");
  const v1::Job job = Finish(Create(spec));
  EXPECT_EQ(job.verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(job.counts().inconclusive(), 1);
  ASSERT_EQ(job.findings_size(), 1);
  EXPECT_EQ(job.findings(0).reason(), "unsupported");
}

// It makes no case, so no case can say it.
TEST_F(HeldJobs, AProviderThatIsGoneIsMissedWhereAllWereAskedFor) {
  Start();
  v1::JobSpec all = Timed("all"), one = Timed("builtin");
  const v1::Job before = Finish(Create(all));
  ASSERT_EQ(before.counts().passed(), 2);
  v1::JobSpec suite;
  suite.set_suite_text(
      "name = \"row\"\ntitle = \"A row\"\nversion = \"1\"\n"
      "[[case]]\nop = \"copy\"\nmode = \"benchmark\"\ndtype = \"fp32\"\ncount = 8\n");
  const v1::Job suite_before = Finish(Create(suite));
  ASSERT_EQ(suite_before.counts().passed(), 2);
  HoldAgainst(before, all);
  HoldAgainst(before, one);
  HoldAgainst(suite_before, suite);
  for (const v1::JobSpec& spec : {all, suite}) {
    EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_PASSED);
  }
  for (v1::Kernel& kernel : cpu_->kernels) kernel.set_available(kernel.provider() != "other");
  for (const v1::JobSpec& spec : {all, suite}) {
    const v1::Job job = Finish(Create(spec));
    EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
    ASSERT_EQ(job.findings_size(), 1);
    EXPECT_EQ(job.findings(0).reason(), "baseline");
    EXPECT_THAT(job.findings(0).message(), HasSubstr("before.json has times of 1 case by other ("));
    EXPECT_THAT(job.findings(0).message(), HasSubstr("and cpu:0 has no such kernel now"));
  }
  EXPECT_EQ(Finish(Create(one)).verdict(), v1::VERDICT_PASSED) << "nobody asked for it";
  suite.mutable_filter()->add_providers("builtin");
  EXPECT_EQ(Finish(Create(suite)).verdict(), v1::VERDICT_PASSED) << "likewise";
}

// Two things that a job has to say of its baseline are two findings.
TEST_F(HeldJobs, ABaselineThatGoesLaterIsSaidBesideAProviderThatWent) {
  Start();
  v1::JobSpec all = Timed("all");
  v1::CreateBaselineRequest request;
  request.mutable_baseline()->set_job(Finish(Create(all)).name());
  request.set_baseline_id("before");
  const auto baseline = manager_->baselines().Create(request);
  ASSERT_TRUE(baseline.ok()) << baseline.status();
  all.set_baseline(baseline->name());
  for (v1::Kernel& kernel : cpu_->kernels) kernel.set_available(kernel.provider() != "other");
  CaseGate gate;
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken& cancel) {
    gate.Wait(cancel);
    return TimedResult(*cpu_, spec, 1e-3);
  };
  Create(Copies(1));  // holds the device
  const std::string name = Create(all);
  ASSERT_TRUE(manager_->baselines().Delete(baseline->name()).ok());
  gate.Let(100);
  const v1::Job job = Finish(name);
  ASSERT_GE(job.findings_size(), 2) << job.ShortDebugString();
  EXPECT_THAT(job.findings(0).message(), HasSubstr("has no such kernel now"));
  EXPECT_THAT(job.findings(1).message(), HasSubstr("no time was held against the baseline"));
  EXPECT_EQ(job.findings(1).subject(), baseline->name());
}

// A job that an older daemon stored has findings without their types.
TEST(AddOnce, KnowsAFindingByItsTypesOrByItsWords) {
  v1::Job job;
  v1::Finding finding = MakeFinding(v1::REASON_BUDGET, "the budget let no case run");
  *job.add_findings() = finding;
  job.mutable_findings(0)->clear_reason_code();
  EXPECT_FALSE(AddOnce(finding, job));
  finding.set_message("another");
  EXPECT_TRUE(AddOnce(finding, job));
  EXPECT_FALSE(AddOnce(MakeFinding(v1::REASON_BUDGET, "in other words"), job));
  EXPECT_EQ(job.findings_size(), 2);
}

TEST(AddFinding, WhatTheDaemonDidIsTheHostsToBlame) {
  v1::Job job;
  AddFinding(job, v1::REASON_CRASH, "the daemon stopped");
  AddFinding(job, v1::REASON_FAULT, "the disk is full");
  AddFinding(job, v1::REASON_CANCELLED, "a user cancelled the job");
  EXPECT_EQ(job.findings(0).blame(), v1::BLAME_HOST);
  EXPECT_EQ(job.findings(1).blame(), v1::BLAME_HOST);
  EXPECT_EQ(job.findings(2).blame(), MakeFinding(v1::REASON_CANCELLED, "").blame());
}

// Neighbours come and go; a kernel that is slower is so each time.
TEST_F(HeldJobs, ATimeThatIsLongerIsTakenAgain) {
  Start();
  v1::JobSpec spec = Timed("builtin");
  HoldAgainst(Finish(Create(spec)), spec);
  std::vector<double> times;  // of the runs; below 0: its output is wrong
  std::size_t runs = 0;
  cpu_->run = [&](const v1::CaseSpec& c, const CancelToken&) {
    const double seconds = times.at(runs++);
    return seconds < 0 ? cpu_->Without(c, v1::VERDICT_FAILED, v1::REASON_BOUND)
                       : TimedResult(*cpu_, c, seconds);
  };
  const auto take = [&](std::vector<double> all) {
    times = std::move(all);
    runs = 0;
    return ResultsOf(Finish(Create(spec))).at(0);
  };
  v1::CaseResult result = take({1.3e-3, 1.2e-3, 1.25e-3});
  EXPECT_EQ(runs, 3u);
  EXPECT_EQ(result.verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(result.bench().baseline().runs(), 3);
  EXPECT_THAT(result.findings(0).message(), HasSubstr("1.2 ms in 3 runs against"));
  result = take({1.3e-3, 1.01e-3, 1e-3});
  EXPECT_EQ(runs, 3u);
  EXPECT_EQ(result.verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(result.bench().median_seconds(), 1e-3);
  EXPECT_EQ(result.bench().baseline().change(), v1::CHANGE_SAME);
  EXPECT_EQ(result.bench().baseline().runs(), 3);
  for (const std::vector<double>& all :
       {std::vector<double>{1.3e-3, 1e-3, 1.2e-3}, std::vector<double>{1.3e-3, 1.2e-3, 1e-3}}) {
    result = take(all);
    EXPECT_EQ(result.verdict(), v1::VERDICT_INCONCLUSIVE) << "slow now and then";
    EXPECT_EQ(result.findings(0).reason(), "noisy");
    EXPECT_EQ(result.bench().median_seconds(), 1.2e-3);
    EXPECT_EQ(result.bench().baseline().change(), v1::CHANGE_AMBIGUOUS);
  }
  result = take({1.3e-3, -1});
  EXPECT_EQ(result.verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(result.findings(0).reason(), "bound");
  EXPECT_EQ(result.findings(0).message(), "in run 2, after 1 that was right: said by the test");
  for (const double seconds : {1e-3, 0.5e-3, 20e-3}) {
    result = take({seconds});
    EXPECT_EQ(runs, 1u) << seconds << ": is not longer, or by more than others can make it";
    EXPECT_FALSE(result.bench().baseline().has_runs());
  }
  options_.times_again.most = absl::ZeroDuration();
  Start();
  EXPECT_EQ(take({1.3e-3}).verdict(), v1::VERDICT_FAILED) << "no time left for more";
}

TEST_F(HeldJobs, WhatIsTooNoisyToTellPassesWithARunThatIsNot) {
  Start();
  v1::JobSpec spec = Timed("builtin");
  HoldAgainst(Finish(Create(spec)), spec);
  int runs = 0, quiet = 2;
  cpu_->run = [&](const v1::CaseSpec& c, const CancelToken&) {
    v1::CaseResult result = TimedResult(*cpu_, c, ++runs < quiet ? 1.1e-3 : 1e-3);
    if (runs < quiet) result.mutable_bench()->set_p90_seconds(3e-3);
    return result;
  };
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(runs, 2);
  runs = 0, quiet = 9;
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(runs, 3);
}

// A neighbour that stays for all of the first run and comes and goes in the others.
TEST_F(HeldJobs, NoisyRunsThatAreNotLongerDoNotConfirmThatAKernelIsSlower) {
  Start();
  v1::JobSpec spec = Timed("builtin");
  HoldAgainst(Finish(Create(spec)), spec);
  std::size_t runs = 0;
  const auto take = [&](const std::vector<double>& noisy) {
    runs = 0;
    cpu_->run = [this, noisy, &runs](const v1::CaseSpec& c, const CancelToken&) {
      v1::CaseResult result = TimedResult(*cpu_, c, runs == 0 ? 1.2e-3 : noisy.at(runs - 1));
      if (runs++ > 0) result.mutable_bench()->set_p90_seconds(3e-3);
      return result;
    };
    return ResultsOf(Finish(Create(spec))).at(0);
  };
  for (const std::vector<double>& noisy :
       {std::vector<double>{1.01e-3, 1.02e-3}, std::vector<double>{1.3e-3, 1.04e-3}}) {
    const v1::CaseResult result = take(noisy);
    EXPECT_EQ(runs, 3u);
    EXPECT_EQ(result.verdict(), v1::VERDICT_INCONCLUSIVE) << result.findings(0).message();
    EXPECT_EQ(result.findings(0).reason(), "noisy");
    EXPECT_EQ(result.bench().median_seconds(), 1.2e-3);
  }
  EXPECT_EQ(take({1.2e-3, 1.3e-3}).verdict(), v1::VERDICT_FAILED) << "as long, and noisy";
}

// The first time alone is no result: a daemon that goes on with the job begins anew.
TEST_F(HeldJobs, AJobThatEndsMeanwhileSaysNothingOfTheCase) {
  options_.times_again.pause = absl::Minutes(5);
  options_.times_again.most = absl::Minutes(50);
  Start();
  v1::JobSpec spec = Timed("builtin");
  HoldAgainst(Finish(Create(spec)), spec);
  std::promise<void> ran;
  cpu_->run = [&](const v1::CaseSpec& c, const CancelToken&) {
    ran.set_value();
    return TimedResult(*cpu_, c, 1.3e-3);
  };
  const std::string job = Create(spec);
  ran.get_future().wait();
  ASSERT_TRUE(manager_->Cancel(job, "a test cancelled it").ok());
  const std::vector<v1::CaseResult> results = ResultsOf(Finish(job));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_SKIPPED);
}

// One that is slow now and then is what is looked for.
TEST_F(HeldJobs, AnAcceleratorsTimeIsTakenOnce) {
  FakeExecutor& gpu = AddDevice("cuda:0");
  Start();
  v1::JobSpec spec = Timed("builtin");
  spec.set_device("cuda:0");
  Take(gpu, 1e-3);
  HoldAgainst(Finish(Create(spec)), spec);
  std::size_t runs = 0;
  gpu.run = [&](const v1::CaseSpec& c, const CancelToken&) {
    return TimedResult(gpu, c, runs++ == 0 ? 1.3e-3 : 1e-3);
  };
  EXPECT_EQ(ResultsOf(Finish(Create(spec))).at(0).verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(runs, 1u);
}

TEST_F(HeldJobs, EachDeviceHasItsOwnThreshold) {
  Take(AddDevice("cpu:1"), 1.08e-3);
  Start();
  v1::JobSpec spec = Timed("builtin");
  HoldAgainst(Finish(Create(spec)), spec);
  spec.set_device("cpu:*");
  const v1::Job job = Finish(Create(spec));
  const std::vector<v1::CaseResult> results = ResultsOf(job);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].bench().baseline().threshold(), 0.05);
  EXPECT_EQ(results[1].bench().baseline().threshold(), 0.10) << "a sibling's";
  EXPECT_EQ(job.verdict(), v1::VERDICT_PASSED);
}

}  // namespace
}  // namespace assay::server
