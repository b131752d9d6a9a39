// Kernels that do not end in their time, and jobs whose end is not seen: whom they accuse.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/qualify/judgement.h"
#include "tests/unit/client/qualify_evidence.h"

namespace assay::client {
namespace {

using qualify_testing::CodeOf;
using qualify_testing::Evidence;
using qualify_testing::Killed;
using qualify_testing::kRight;
using qualify_testing::Late;
using qualify_testing::Result;

// A slow host, whose reference takes long, accuses no device.
TEST(Late, WhileTheHostChecksIsNoKernelThatHangs) {
  EXPECT_EQ(CodeOf(Evidence({kRight, Result(v1::VERDICT_ERROR, "timeout")})), "A112");
  for (const char* device : {"cpu:0", "cuda:0"}) {
    for (const char* phase : {"prepare", "kernel", "bench"}) {
      EXPECT_EQ(CodeOf(Evidence({kRight, Late(1, phase, device)})), "A112") << phase;
    }
    for (const char* phase : {"plan", "recheck"}) {
      EXPECT_EQ(CodeOf(Evidence({kRight, Late(1, phase, device)})), "A309") << phase;
    }
  }
  for (const char* phase : {"fill", "guards", "reference", "compare"}) {
    EXPECT_EQ(CodeOf(Evidence({kRight, Late(1, phase, "cpu:0")})), "A309") << phase;
  }
  // What crashes there may have been damaged by the kernel before.
  v1::CaseResult crash = Late(1, "compare");
  crash.mutable_findings(0)->set_reason("crash");
  EXPECT_EQ(CodeOf(Evidence({kRight, crash})), "A111");
}

TEST(Late, AnAcceleratorThatHangsAtItsOwnChecksIsTriedAgainAndAccused) {
  for (const char* device : {"cuda:0", "hip:1", "devices/cuda:0"}) {
    for (const char* phase : {"fill", "guards", "reference", "compare"}) {
      const v1::CaseResult late = Late(1, phase, device);
      ASSERT_EQ(WorthRetrying({kRight, late}, Trouble::kLate, 2).size(), 1u) << phase;
      DeviceEvidence evidence = Evidence({kRight, late});
      evidence.retries = {{late, {late}, {}}};
      EXPECT_EQ(CodeOf(evidence), "A112") << device << " " << phase;
      evidence.retries = {{late, {kRight}, {}}};
      EXPECT_EQ(CodeOf(evidence), "A310") << device << " " << phase;
    }
  }
}

TEST(Late, IsTriedAgainBeforeTheDeviceIsAccused) {
  const v1::CaseResult late = Late(1);
  const std::vector<v1::CaseResult> retried =
      WorthRetrying({kRight, Late(2, "recheck"), late}, Trouble::kLate, 3);
  ASSERT_EQ(retried.size(), 1u) << "of a check nothing more is to be learnt";
  EXPECT_EQ(retried[0].index(), 1);

  DeviceEvidence evidence = Evidence({kRight, late});
  evidence.retries = {{late, {kRight}, {}}};
  EXPECT_EQ(CodeOf(evidence), "A310");
  evidence.retries = {{late, {late}, {}}};
  EXPECT_EQ(CodeOf(evidence), "A112");
  evidence.retries = {{late, {Result(v1::VERDICT_ERROR, "crash")}, {}}};
  EXPECT_EQ(CodeOf(evidence), "A112") << "in trouble again, if of another kind";
  evidence.retries = {{late, {Result(v1::VERDICT_INCONCLUSIVE, "zeros")}, {}}};
  EXPECT_EQ(CodeOf(evidence), "A310");
  evidence.retries = {{late, {Late(1, "recheck")}, {}}};
  EXPECT_EQ(CodeOf(evidence), "A310") << "its kernel ended, and a slow host's check did not";
  evidence.retries = {{late, {late}, {kRight}}};
  EXPECT_EQ(CodeOf(evidence), "A112") << "this device alone";
  evidence.retries = {{late, {late}, {late}}};
  EXPECT_EQ(CodeOf(evidence), "A118") << "the library, wherever it runs";
  evidence.retries = {{late, {late}, {Result(v1::VERDICT_ERROR, "crash")}}};
  EXPECT_EQ(CodeOf(evidence), "A112") << "a crash there is no hang";
}

TEST(Late, WithoutARetrySharesTheOutcomeOfThoseThatHadOne) {
  const std::vector<v1::CaseResult> late = {Late(1), Late(2), Late(3), Late(4)};
  DeviceEvidence evidence = Evidence({kRight, late[0], late[1], late[2], late[3]});
  evidence.retries = {{late[0], {kRight}, {}}, {late[1], {kRight}, {}}};
  const Fit ended = Judge(evidence, {});
  EXPECT_EQ(ended.code().code, "A310");
  EXPECT_EQ(ended.code().fitness, Fitness::kInconclusive);
  EXPECT_EQ(ended.grievances[0].cases, 4);
  evidence.retries[1].here = {late[1]};
  EXPECT_EQ(CodeOf(evidence), "A112");
  EXPECT_EQ(Judge(evidence, {}).grievances[0].cases, 3) << "one is known to have ended";
}

TEST(Late, TakesNoRetryFromWrongOnes) {
  std::vector<v1::CaseResult> results = {Late(1), Late(2), Late(3)};
  results.push_back(Result(v1::VERDICT_FAILED, "bound", 4));
  ASSERT_EQ(WorthRetrying(results, Trouble::kWrong, 3).size(), 1u);
  EXPECT_EQ(WorthRetrying(results, Trouble::kWrong, 3)[0].index(), 4);
  EXPECT_EQ(WorthRetrying(results, Trouble::kLate, 2).size(), 2u);
}

// Cancelled by a signal, say, or on a host that had no memory meanwhile.
TEST(Late, AccusesNobodyWhereARetryCameToNothing) {
  const v1::CaseResult late = Late(1);
  DeviceEvidence evidence = Evidence({kRight, late, Late(2)});
  const std::vector<std::vector<v1::CaseResult>> fruitless = {
      {},
      {Result(v1::VERDICT_SKIPPED, "cancelled")},
      {Result(v1::VERDICT_ERROR, "memory")},
      {Result(v1::VERDICT_INCONCLUSIVE, "memory")},
      {Result(v1::VERDICT_UNSUPPORTED, "unsupported")},
      {Killed(1)}};
  for (const std::vector<v1::CaseResult>& here : fruitless) {
    evidence.retries = {{late, here, {}}};
    const Fit fit = Judge(evidence, {});
    EXPECT_EQ(fit.code().code, "A306");
    EXPECT_EQ(fit.code().fitness, Fitness::kInconclusive);
    EXPECT_EQ(fit.grievances[0].cases, 2) << "the other shares it";
  }
  evidence.retries.push_back({Late(2), {Late(2)}, {}});
  EXPECT_EQ(CodeOf(evidence), "A112");
}

TEST(CutShort, WhatWasReceivedIsJudgedAndWhatIsNotIsSaid) {
  DeviceEvidence evidence = Evidence({kRight, Result(v1::VERDICT_FAILED, "bound", 1)});
  evidence.job.set_state(v1::JOB_STATE_RUNNING);
  evidence.cut_short = Aggrieved("A901", "cannot reach assayd");
  const Fit fit = Judge(evidence, {});
  EXPECT_EQ(fit.code().code, "A103");
  ASSERT_EQ(fit.grievances.size(), 3u);
  EXPECT_EQ(fit.grievances[1].code->code, "A901");
  EXPECT_EQ(fit.grievances[1].why, "cannot reach assayd");
  EXPECT_EQ(fit.grievances[2].code->code, "A306");
  evidence.results.pop_back();
  EXPECT_EQ(CodeOf(evidence), "A901");
  EXPECT_EQ(CodeOf(evidence, {"A901"}), "A306") << "half of a level qualifies nothing";
  evidence.cut_short = Aggrieved("A306", "ended by a signal");
  EXPECT_EQ(Judge(evidence, {}).grievances.size(), 1u);
  EXPECT_EQ(Judge(evidence, {}).grievances[0].why, "ended by a signal");
}

}  // namespace
}  // namespace assay::client
