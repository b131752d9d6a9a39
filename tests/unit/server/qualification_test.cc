// Which jobs qualify their devices, and each by what it did itself.
#include "server/jobs/qualification.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "tests/unit/server/counting_metrics.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay {
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

TEST_F(QualificationTest, WhatProvesNothingDoesNotPass) {
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_verdict(v1::VERDICT_INCONCLUSIVE);
    return result;
  };
  Start();
  Finish(Create(Quick("cpu:0")));
  EXPECT_EQ(Qualified("cpu:0", "failed"), 1);
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

TEST_F(QualificationTest, OneThatWasCancelledDoesNotCount) {
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken& cancel) {
    while (!cancel.cancelled()) std::this_thread::yield();
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_verdict(v1::VERDICT_SKIPPED);
    return result;
  };
  Start();
  const std::string name = Create(Quick("cpu:0"));
  ASSERT_TRUE(manager_->Cancel(name).ok());
  EXPECT_EQ(Finish(name).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(All(), 0);
}

}  // namespace
}  // namespace assay
