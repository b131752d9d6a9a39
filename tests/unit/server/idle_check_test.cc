// One tiny exact case in the gaps between jobs.
#include "server/pass/idle_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/server/counting_metrics.h"
#include "tests/unit/server/fake_executor.h"

namespace assay::server {
namespace {

class IdleCheckTest : public testing::Test {
 protected:
  IdleCheckTest() {
    device_.AddKernel("gemm", "builtin");
    device_.kernels.back().add_dtypes(v1::DTYPE_FP32);
    device_.AddKernel("gemm", "planted/bit-flip");
    device_.kernels.back().add_dtypes(v1::DTYPE_FP32);
    device_.AddKernel("softmax", "builtin");
    device_.run = [this](const v1::CaseSpec& spec, const CancelToken&) {
      v1::CaseResult result = device_.Passed(spec);
      result.mutable_digests()->set_canonical(digest_ + std::to_string(spec.gemm().m()));
      result.mutable_duration()->set_nanos(nanos_);
      results_.push_back(result);
      return result;
    };
  }
  IdleCheck Probe(bool in_use = false) {
    return IdleCheck(
        device_, &metrics_,
        {absl::Milliseconds(5), absl::Seconds(10), [in_use](std::string_view) { return in_use; }});
  }

  const CancelToken never_;
  FakeExecutor device_{"cpu:0"};
  CountingMetrics metrics_;
  std::string digest_ = "d";
  int nanos_ = 400'000;  // of a case
  std::vector<v1::CaseResult> results_;
};

TEST_F(IdleCheckTest, GrowsUntilItFillsItsShare) {
  IdleCheck probe = Probe();
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_TRUE(probe.Run(never_));
  nanos_ = 600'000;
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_TRUE(probe.Run(never_));
  nanos_ = 6'000'000;
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_TRUE(probe.Run(never_));
  std::vector<std::int64_t> sizes;
  for (const v1::CaseResult& r : results_) {
    sizes.push_back(r.spec().gemm().m());
    EXPECT_EQ(r.spec().provider(), "builtin") << "never a planted one";
    EXPECT_EQ(r.spec().criterion(), v1::CRITERION_BITWISE);
  }
  EXPECT_THAT(sizes, testing::ElementsAre(32, 64, 96, 96, 96, 64));
}

TEST_F(IdleCheckTest, AKernelThatIsTooSlowIsLeftOut) {
  nanos_ = 50'000'000;
  IdleCheck probe = Probe();
  for (int n = 0; n < 3; ++n) EXPECT_TRUE(probe.Run(never_));
  EXPECT_FALSE(probe.Run(never_));
}

TEST_F(IdleCheckTest, YieldsToOtherProcesses) {
  EXPECT_FALSE(Probe(/*in_use=*/true).Run(never_));
  EXPECT_TRUE(results_.empty());
}

TEST_F(IdleCheckTest, WhatFailedIsNoMeasure) {
  nanos_ = 2'000'000;
  IdleCheck probe = Probe();
  const auto right = device_.run;
  device_.run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    return device_.Without(spec, v1::VERDICT_ERROR, v1::REASON_TIMEOUT);
  };
  EXPECT_TRUE(probe.Run(never_));
  device_.run = right;
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_EQ(metrics_.failed, 0);
}

TEST_F(IdleCheckTest, LeavesAQuarantineAlone) {
  device_.state = v1::DEVICE_STATE_QUARANTINED;
  EXPECT_FALSE(Probe().Run(never_));
  device_.state = v1::DEVICE_STATE_READY;
  EXPECT_TRUE(Probe().Run(never_));
  EXPECT_EQ(device_.released, 0) << "that is the operator's, and lifts a quarantine";
  EXPECT_EQ(device_.given_back, 1);
}

TEST_F(IdleCheckTest, MemoryThatAJobLeftIsGivenBackThoughProbesUseIt) {
  device_.leased_bytes = 1 << 20;
  const auto probe = [this](absl::Duration idle_release) {
    return IdleCheck(device_, &metrics_,
                     {absl::Milliseconds(5), absl::Seconds(10), {}, idle_release});
  };
  IdleCheck soon = probe(absl::Nanoseconds(1));
  EXPECT_TRUE(soon.Run(never_));
  EXPECT_EQ(device_.given_back, 0) << "a job may be about to come";
  EXPECT_TRUE(soon.Run(never_));
  EXPECT_EQ(device_.given_back, 1);
  for (const absl::Duration idle_release : {absl::Hours(1), absl::ZeroDuration()}) {
    IdleCheck other = probe(idle_release);
    EXPECT_TRUE(other.Run(never_));
    EXPECT_TRUE(other.Run(never_));
    EXPECT_EQ(device_.given_back, 1);
  }
}

TEST_F(IdleCheckTest, OneThatAJobEndsWasNone) {
  nanos_ = 2'000'000;
  IdleCheck probe = Probe();
  const auto right = device_.run;
  CancelToken job_came;
  device_.run = [&](const v1::CaseSpec& spec, const CancelToken& cancel) {
    EXPECT_FALSE(cancel.cancelled());
    job_came.Cancel();
    EXPECT_TRUE(cancel.cancelled());
    return device_.Without(spec, v1::VERDICT_SKIPPED, v1::REASON_CANCELLED);
  };
  EXPECT_FALSE(probe.Run(job_came));
  EXPECT_FALSE(probe.Run(job_came)) << "the job is there";
  EXPECT_EQ(metrics_.cases, 0);
  EXPECT_EQ(device_.given_back, 0) << "what is held is the job's";
  device_.run = right;
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_EQ(metrics_.failed, 0);
}

TEST_F(IdleCheckTest, AnotherDigestThanBeforeIsAFailure) {
  nanos_ = 2'000'000;
  IdleCheck probe = Probe();
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_EQ(metrics_.failed, 0);
  digest_ = "e";
  EXPECT_TRUE(probe.Run(never_));
  EXPECT_EQ(metrics_.failed, 1);
}

}  // namespace
}  // namespace assay::server
