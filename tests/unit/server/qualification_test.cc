// Which jobs qualify their devices, and each by what it did itself.
#include "server/jobs/qualification.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "server/base/finding.h"
#include "server/baselines/baseline_match.h"
#include "tests/unit/server/counting_metrics.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

constexpr char kQuick[] = R"toml(
name = "quick"
title = "Two formats"
version = "1"

[[case]]
op = "copy"
provider = "builtin"
count = 8
dtype = "fp32"

[[case]]
op = "gemm"
mode = "both"
provider = "builtin"
shape = { m = 8, n = 8, k = 8 }
dtype = "fp32"
)toml";

class QualificationTest : public JobsTest {
 protected:
  QualificationTest() {
    std::ofstream(options_.suites_folder + "/quick.toml") << kQuick;
    second_ = &AddDevice("cpu:1");
  }
  ~QualificationTest() override { manager_.reset(); }
  void Start() {
    OpenStore();
    manager_ = JobManager::Make(*store_, devices_, &metrics_, options_);
    ASSERT_TRUE(manager_->Start().ok());
  }
  // As after the daemon's end: what is in memory is gone, but for what was counted.
  void StartAgain() {
    manager_.reset();
    store_.reset();
    Start();
  }
  // Timed cases take so long.
  void Take(double seconds) {
    cpu_->run = [this, seconds](const v1::CaseSpec& spec, const CancelToken&) {
      v1::CaseResult result = cpu_->Passed(spec);
      if (!spec.has_gemm()) return result;
      for (auto set : {&v1::BenchStats::set_median_seconds, &v1::BenchStats::set_p10_seconds,
                       &v1::BenchStats::set_p90_seconds}) {
        (result.mutable_bench()->*set)(seconds);
      }
      result.mutable_bench()->set_samples(100);
      return result;
    };
  }
  static v1::JobSpec Quick(const std::string& device) {
    v1::JobSpec spec;
    spec.set_suite("quick");
    spec.set_device(device);
    return spec;
  }
  int Qualified(const std::string& device, const std::string& how) {
    return metrics_.calls("qualified " + device + " quick " + how);
  }
  int All() {
    return Qualified("cpu:0", "passed") + Qualified("cpu:0", "failed") +
           Qualified("cpu:1", "passed") + Qualified("cpu:1", "failed");
  }

  FakeExecutor* second_ = nullptr;
  CountingMetrics metrics_;
};

TEST_F(QualificationTest, EachDeviceOfAJobByItsOwnResults) {
  second_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = second_->Passed(spec);
    if (spec.has_gemm()) result.set_verdict(v1::VERDICT_FAILED);
    return result;
  };
  Start();
  const v1::Job job = Finish(Create(Quick("cpu:*")));
  EXPECT_EQ(job.verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(Qualified("cpu:0", "passed"), 1);
  EXPECT_EQ(Qualified("cpu:1", "failed"), 1);
  EXPECT_EQ(All(), 2);
  Finish(Create(Quick("cpu:0")));
  EXPECT_EQ(Qualified("cpu:0", "passed"), 2);
}

// A kernel that the suite requires is missing on one of two devices.
TEST_F(QualificationTest, WhatAnotherDeviceLacksFailsNoDevice) {
  std::ofstream(options_.suites_folder + "/quick.toml", std::ios::app)
      << "\n[[require]]\nop = [\"gemm\"]\nprovider = \"builtin\"\ndtype = [\"fp32\"]\n";
  second_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = second_->Passed(spec);
    if (spec.has_gemm()) result.set_verdict(v1::VERDICT_UNSUPPORTED);
    return result;
  };
  Start();
  EXPECT_EQ(Finish(Create(Quick("cpu:*"))).verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(Qualified("cpu:0", "passed"), 1);
  EXPECT_EQ(Qualified("cpu:1", "failed"), 1);
  EXPECT_EQ(All(), 2);
}

TEST_F(QualificationTest, WhatProvesNothingDoesNotPass) {
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_verdict(v1::VERDICT_INCONCLUSIVE);
    return result;
  };
  Start();
  Finish(Create(Quick("cpu:0")));
  EXPECT_EQ(Qualified("cpu:0", "unproven"), 1);
  EXPECT_EQ(All(), 0);
}

// As `assay qualify` says: DEGRADED, and INCONCLUSIVE.
TEST_F(QualificationTest, WhatIsSlowOrNobodysFaultDoesNotFail) {
  std::vector<v1::Finding> findings;
  v1::Verdict verdict = v1::VERDICT_FAILED;
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    if (!spec.has_gemm()) return result;
    result.set_verdict(verdict);
    for (const v1::Finding& finding : findings) *result.add_findings() = finding;
    return result;
  };
  Start();
  const auto how = [&](v1::Verdict given, const std::vector<v1::Finding>& all) {
    verdict = given, findings = all;
    const int before = Qualified("cpu:0", "failed");
    Finish(Create(Quick("cpu:0")));
    return Qualified("cpu:0", "failed") > before ? "failed" : "unproven";
  };
  const v1::Finding slow = MakeFinding(v1::REASON_EFFICIENCY, "20 % of its roof");
  const v1::Finding wrong = MakeFinding(v1::REASON_BOUND, "one element is wrong");
  v1::Finding killed = MakeFinding(v1::REASON_CRASH, "somebody sent SIGKILL");
  EXPECT_STREQ(how(v1::VERDICT_FAILED, {slow}), "unproven");
  EXPECT_STREQ(how(v1::VERDICT_FAILED, {slow, wrong}), "failed");
  EXPECT_STREQ(how(v1::VERDICT_ERROR, {killed}), "failed");
  killed.set_blame(v1::BLAME_HOST);
  EXPECT_STREQ(how(v1::VERDICT_ERROR, {killed}), "unproven");
  EXPECT_EQ(Qualified("cpu:0", "unproven"), 2);
  EXPECT_EQ(Qualified("cpu:0", "failed"), 2);
  StartAgain();
  EXPECT_EQ(Qualified("cpu:0", "unproven"), 3) << "the newest";
  EXPECT_EQ(Qualified("cpu:0", "failed"), 3) << "before it, and nothing has passed since";
}

TEST_F(QualificationTest, AShareAClientsOwnSuiteAndOtherSuitesDoNotQualify) {
  Start();
  v1::JobSpec spec = Quick("cpu:0");
  spec.mutable_filter()->add_ops("copy");
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_PASSED);
  spec.clear_filter();
  spec.set_suite_text(kQuick);
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(Finish(Create(Copies(2))).verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(All(), 0);
  // A filter that is there and takes everything is none.
  spec = Quick("cpu:0");
  spec.mutable_filter();
  Finish(Create(spec));
  EXPECT_EQ(All(), 1);
}

TEST_F(QualificationTest, ARestartForgetsNoFailureAndTheNewestCounts) {
  second_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = second_->Passed(spec);
    if (spec.has_gemm()) result.set_verdict(v1::VERDICT_FAILED);
    return result;
  };
  Start();
  Finish(Create(Quick("cpu:*")));
  v1::JobSpec share = Quick("cpu:1");
  share.mutable_filter()->add_ops("copy");
  EXPECT_EQ(Finish(Create(share)).verdict(), v1::VERDICT_PASSED);
  StartAgain();
  EXPECT_EQ(Qualified("cpu:0", "passed"), 2);
  EXPECT_EQ(Qualified("cpu:1", "failed"), 2) << "a restart turned it green";
  EXPECT_EQ(All(), 4);
  second_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    return second_->Passed(spec);
  };
  Finish(Create(Quick("cpu:1")));
  StartAgain();
  EXPECT_EQ(Qualified("cpu:1", "failed"), 2);
  EXPECT_EQ(Qualified("cpu:1", "passed"), 2);
  EXPECT_EQ(Qualified("cpu:0", "passed"), 3);
  EXPECT_EQ(metrics_.calls("suite quick 1 on cpu:1"), 2) << "speeds are not told again";
}

TEST_F(QualificationTest, ASelftestIsKnownAfterARestart) {
  cpu_->AddKernel("copy", "planted/zeros");
  cpu_->kernels.back().add_dtypes(v1::DTYPE_FP32);
  v1::PlantedExample& example = *cpu_->kernels.back().mutable_planted()->add_examples();
  *example.mutable_spec() = Copies(1, "planted/zeros").cases().cases(0);
  example.set_check("exact");
  Start();
  v1::JobSpec spec;
  spec.set_suite("selftest");
  spec.set_device("cpu:0");
  const v1::Job job = Finish(Create(spec));
  ASSERT_GT(job.selftest().rows_size(), 0);
  EXPECT_EQ(metrics_.selftests, 1);
  StartAgain();
  EXPECT_EQ(metrics_.selftests, 2);
}

TEST_F(QualificationTest, TimesOfTheCallersSpeakNeitherForNorAgainstADevice) {
  Take(1e-3);
  Start();
  const v1::Job first = Finish(Create(Quick("cpu:0")));
  v1::JobSpec spec = Quick("cpu:0");
  v1::Baseline& baseline = *spec.mutable_inline_baseline();
  baseline = Describe(first);
  const auto results = store_->Results(first.name(), 0, 100);
  ASSERT_TRUE(results.ok());
  for (const v1::CaseResult& result : *results) *baseline.add_results() = result;
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(Qualified("cpu:0", "passed"), 2);
  Take(2e-3);
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(Qualified("cpu:0", "unjudged"), 1);
  EXPECT_EQ(Qualified("cpu:0", "failed"), 0);
  StartAgain();
  EXPECT_EQ(Qualified("cpu:0", "unjudged"), 2);
  EXPECT_EQ(Qualified("cpu:0", "passed"), 3) << "the newest that says something";
  cpu_->run = [&](const v1::CaseSpec& asked, const CancelToken&) {
    return asked.has_gemm() ? cpu_->Without(asked, v1::VERDICT_UNSUPPORTED, v1::REASON_UNSUPPORTED)
                            : cpu_->Passed(asked);
  };
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(Qualified("cpu:0", "unjudged"), 3) << "without the baseline it would have passed";
  EXPECT_EQ(Qualified("cpu:0", "failed"), 0);
  cpu_->run = [&](const v1::CaseSpec& asked, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(asked);
    result.set_verdict(v1::VERDICT_FAILED);
    return result;
  };
  Finish(Create(spec));
  EXPECT_EQ(Qualified("cpu:0", "failed"), 1) << "wrong, whatever its times";
  // A budget of its own takes other cases than the suite's.
  spec = Quick("cpu:0");
  spec.mutable_budget()->set_seconds(60);
  Finish(Create(spec));
  EXPECT_EQ(Qualified("cpu:0", "failed"), 1);
}

TEST_F(QualificationTest, OnlyAWholeSuiteAsItIsWrittenIsHeldAgainstOtherDevices) {
  Take(1e-3);
  Start();
  const auto told = [this] { return metrics_.calls("suite quick 1 on cpu:0"); };
  v1::JobSpec spec = Quick("cpu:0");
  Finish(Create(spec));
  EXPECT_EQ(told(), 1);
  spec.set_mode(v1::MODE_BENCHMARK);
  Finish(Create(spec));
  spec.clear_mode();
  spec.mutable_filter()->add_ops("gemm");
  Finish(Create(spec));
  spec.clear_filter();
  spec.set_suite_text(kQuick);
  Finish(Create(spec));
  EXPECT_EQ(told(), 1);
}

TEST_F(QualificationTest, OneThatWasCancelledDoesNotCount) {
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken& cancel) {
    while (!cancel.cancelled()) std::this_thread::yield();
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_verdict(v1::VERDICT_SKIPPED);
    return result;
  };
  Start();
  const std::string name = Create(Quick("cpu:0"));
  ASSERT_TRUE(manager_->Cancel(name, "a test cancelled it").ok());
  EXPECT_EQ(Finish(name).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(All(), 0);
}

}  // namespace
}  // namespace assay::server
