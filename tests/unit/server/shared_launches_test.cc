// Cases that share launches, against a fake worker: each has a result of its own, and what
// goes wrong beside others is found out alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/util/time_util.h"
#include "server/worker/supervisor.h"
#include "tests/unit/server/supervisor_fixture.h"

namespace assay {
namespace {

using ::testing::ElementsAre;

class SharedLaunches : public SupervisorTest {
 protected:
  void MakeSharing() {
    SupervisorOptions options;
    options.shares_launches = true;
    Make(std::move(options));
  }

  // The case at 7 and those behind it, as a job has them executed.
  std::vector<v1::CaseResult> RunAll(const std::vector<std::string>& modes,
                                     absl::Duration limit = absl::Seconds(3)) {
    std::vector<v1::CaseSpec> specs(modes.size());
    for (std::size_t i = 0; i < modes.size(); ++i) {
      specs[i].set_name(modes[i]);
      specs[i].set_provider("builtin");
      specs[i].mutable_copy()->set_count(1);
    }
    std::vector<v1::CaseResult> results;
    CasesAhead ahead;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const int index = 7 + static_cast<int>(i);
      std::optional<v1::CaseResult> early = ahead.Take(index);
      ahead.next.clear();
      for (std::size_t n = i + 1; n < specs.size(); ++n) ahead.next.push_back(&specs[n]);
      results.push_back(early ? *early
                              : executor_->ExecuteLeading(specs[i], index, limit, cancel_, ahead));
      EXPECT_EQ(results.back().index(), index);
    }
    EXPECT_TRUE(ahead.results.empty());
    return results;
  }
};

TEST_F(SharedLaunches, CasesBesideAnotherHaveResultsOfTheirOwn) {
  MakeSharing();
  const auto results = RunAll({"answer", "answer", "answer"});
  EXPECT_NE(results[0].implementation(), "beside");
  for (const v1::CaseResult& r : results) EXPECT_EQ(r.verdict(), v1::VERDICT_PASSED);
  for (const std::size_t i : {1, 2}) {
    EXPECT_EQ(results[i].implementation(), "beside");
    EXPECT_EQ(google::protobuf::util::TimeUtil::DurationToMilliseconds(results[i].duration()), 250);
  }
  const auto start = [&](std::size_t i) {
    return google::protobuf::util::TimeUtil::TimestampToMilliseconds(results[i].start_time());
  };
  EXPECT_EQ(start(2), start(1) + 250);
}

TEST_F(SharedLaunches, WithoutSharedLaunchesEachRunsAlone) {
  Make();
  for (const v1::CaseResult& r : RunAll({"answer", "answer"})) {
    EXPECT_NE(r.implementation(), "beside");
  }
}

void ExpectOnlySuspected(const v1::CaseResult& result, const std::string& message) {
  ExpectFinding(result, v1::VERDICT_INCONCLUSIVE, "nondeterministic",
                "passed alone, and not beside other cases: " + message);
  EXPECT_NE(result.implementation(), "beside");
  EXPECT_FALSE(result.next_step().empty());
}

TEST_F(SharedLaunches, ACrashBesideOthersIsOneCasesOwnAndTheOthersRunAlone) {
  MakeSharing();
  const auto results = RunAll({"answer", "answer", "crash", "answer", "answer"});
  for (const std::size_t i : {0, 1, 3, 4}) {
    EXPECT_EQ(results[i].verdict(), v1::VERDICT_PASSED) << i;
    EXPECT_NE(results[i].implementation(), "beside") << i;
  }
  ExpectFinding(results[2], v1::VERDICT_ERROR, "crash",
                "worker killed by SIGSEGV (segmentation fault) in the kernel under test; worker "
                "replaced");
  EXPECT_THAT(restarts(), ElementsAre("crash", "crash"));
}

TEST_F(SharedLaunches, CrashesBesideOthersQuarantineNoSoonerThanAlone) {
  SupervisorOptions options;
  options.shares_launches = true;
  options.deaths.in_window = 5;
  Make(std::move(options));
  RunAll({"crash", "crash", "crash", "crash", "answer"});
  EXPECT_EQ(executor_->Describe().quarantine_reason(), "");
}

TEST_F(SharedLaunches, WhatPassesAloneAndNotBesideOthersProvesNothing) {
  MakeSharing();
  const auto results = RunAll({"answer", "suspect", "answer"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectOnlySuspected(results[1], "bound: odd; ");
  EXPECT_EQ(results[2].implementation(), "beside");
  EXPECT_THAT(restarts(), ElementsAre());
}

// Found before another took the worker with it.
TEST_F(SharedLaunches, ASuspicionOutlivesItsWorker) {
  MakeSharing();
  const auto results = RunAll({"answer", "suspect", "crash", "answer"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectOnlySuspected(results[1], "something was wrong with it, before another: worker killed");
  EXPECT_EQ(results[2].verdict(), v1::VERDICT_ERROR);
  EXPECT_EQ(results[3].verdict(), v1::VERDICT_PASSED);
}

TEST_F(SharedLaunches, AHangBesideOthersIsOneCasesOwn) {
  MakeSharing();
  const auto results = RunAll({"answer", "hang"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectFinding(results[1], v1::VERDICT_ERROR, "timeout", "no answer within 3 s (deadline)");
  EXPECT_THAT(results[1].repro(), testing::EndsWith(" --deadline 3s"));
}

TEST_F(SharedLaunches, EachTurnHasTheTimeOfACase) {
  MakeSharing();
  const auto results = RunAll({"answer", "slow", "slow"}, absl::Seconds(6));
  for (const std::size_t i : {1, 2}) EXPECT_EQ(results[i].implementation(), "beside") << i;
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(SharedLaunches, ARefusalBesideOthersIsOneCasesOwn) {
  MakeSharing();
  const auto results = RunAll({"answer", "refuse", "answer"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectFinding(results[1], v1::VERDICT_ERROR, "fault", "refused");
  EXPECT_EQ(results[2].verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(SharedLaunches, ACrashInWhatAllShareIsHeldAgainstThemAll) {
  MakeSharing();
  for (const v1::CaseResult& r : RunAll({"answer", "answer", "share-crash"})) {
    ExpectOnlySuspected(r, "worker killed by SIGSEGV");
  }
  EXPECT_THAT(restarts(), ElementsAre("crash"));
}

TEST_F(SharedLaunches, ALostDeviceIsOneCasesOwnAndTheOthersRunAlone) {
  MakeSharing();
  const auto results = RunAll({"answer", "answer", "lost", "answer"});
  for (const std::size_t i : {0, 1, 3}) EXPECT_EQ(results[i].verdict(), v1::VERDICT_PASSED) << i;
  for (const std::size_t i : {0, 3}) EXPECT_NE(results[i].implementation(), "beside") << i;
  EXPECT_EQ(results[1].implementation(), "beside");
  ExpectOnlySuspected(results[2], "bound: odd; ");
  EXPECT_THAT(restarts(), ElementsAre("fault"));
}

}  // namespace
}  // namespace assay
