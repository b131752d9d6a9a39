// Cases that a worker runs in one call, against a fake worker. Beside one another: each has a
// result of its own, and what goes wrong beside others is found out alone. In turn: each has the
// result that it has alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "server/worker/supervisor.h"
#include "tests/unit/server/supervisor_fixture.h"

namespace assay::server {
namespace {

using ::testing::ElementsAre;

class SharedLaunches : public SupervisorTest {
 protected:
  void MakeSharing(const std::string& environment = "") {
    SupervisorOptions options;
    if (!environment.empty()) options.environment = {environment};
    options.shares_launches = true;
    Make(std::move(options));
  }

  // The case at 7 and those behind it, as a job has them executed.
  std::vector<v1::CaseResult> RunAll(const std::vector<std::string>& modes,
                                     absl::Duration limit = kSoon) {
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
      for (std::size_t n = i + 1; n < specs.size() && !ahead.Knows(7 + static_cast<int>(n)); ++n) {
        ahead.next.push_back(&specs[n]);
      }
      results.push_back(early ? *early
                              : executor_->ExecuteLeading(specs[i], index, limit, cancel_, ahead));
      EXPECT_EQ(results.back().index(), index);
    }
    EXPECT_TRUE(ahead.results.empty());
    return results;
  }

  // Runs a case that answers and one that hangs. Only the second ends at the deadline.
  void ExpectAHangIsItsOwn() {
    for (const int seconds : kTrySeconds) {
      const auto results = RunAll({"answer", "hang"}, absl::Seconds(seconds));
      const bool answered = results[0].verdict() == v1::VERDICT_PASSED;
      if (!answered && seconds != *std::rbegin(kTrySeconds)) continue;
      EXPECT_TRUE(answered) << results[0].ShortDebugString();
      ExpectFinding(results[1], v1::VERDICT_ERROR, "timeout",
                    absl::StrCat("no answer within ", seconds, " s (deadline)"));
      EXPECT_THAT(results[1].repro(),
                  testing::EndsWith(absl::StrCat(" --deadline ", seconds, "s")));
      break;
    }
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

class CasesInTurn : public SharedLaunches {
 protected:
  void MakeInTurn(SupervisorOptions options = {}) {
    options.environment = {"FAKE_WORKER=in-turn"};
    Make(std::move(options));
  }
};

TEST_F(CasesInTurn, ResultsKeepTheTimesOfTheirWorker) {
  MakeInTurn();
  const auto results = RunAll({"answer", "last", "answer", "answer"});
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].verdict(), v1::VERDICT_PASSED) << i;
    EXPECT_EQ(results[i].implementation(), "in turn") << i;
  }
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(results[i].start_time().seconds(), 1000 + static_cast<int>(i));
    EXPECT_EQ(results[i].duration().seconds(), static_cast<int>(i) + 1);
  }
  EXPECT_EQ(results[2].start_time().seconds(), 1000) << "the first of the next call";
}

TEST_F(CasesInTurn, ADeathIsTheCasesInWhoseTurnItWasAndTheOthersRunAgain) {
  MakeInTurn();
  const auto results = RunAll({"answer", "answer", "crash", "answer"});
  for (const std::size_t i : {0, 1, 3}) {
    EXPECT_EQ(results[i].verdict(), v1::VERDICT_PASSED) << i;
    EXPECT_TRUE(results[i].findings().empty()) << i;
  }
  ExpectFinding(results[2], v1::VERDICT_ERROR, "crash",
                "worker killed by SIGSEGV (segmentation fault) in the kernel under test; worker "
                "replaced");
  EXPECT_EQ(results[2].name(), "crash");
  EXPECT_TRUE(results[2].has_duration());
  EXPECT_THAT(restarts(), ElementsAre("crash")) << "it is not run again";
}

TEST_F(CasesInTurn, AHangIsTheCasesInWhoseTurnItWas) {
  MakeInTurn();
  ExpectAHangIsItsOwn();
}

TEST_F(CasesInTurn, ARefusalIsTheCasesInWhoseTurnItWas) {
  MakeInTurn();
  const auto results = RunAll({"answer", "refuse", "answer"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectFinding(results[1], v1::VERDICT_ERROR, "fault", "refused");
  EXPECT_EQ(results[2].verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(restarts(), ElementsAre());
}

// What a lost case gives again does not end the row of deaths.
TEST_F(CasesInTurn, DeathsInARowCountAsAlone) {
  SupervisorOptions options;
  options.deaths.in_a_row = 3;
  MakeInTurn(std::move(options));
  const auto results = RunAll({"answer", "crash", "crash", "crash", "answer"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  EXPECT_NE(executor_->Describe().quarantine_reason(), "");
  ExpectFinding(results[4], v1::VERDICT_ERROR, "fault", "device is quarantined");
}

// The page still has the turn of the call before.
TEST_F(CasesInTurn, ADeathBeforeTheFirstBeginsIsTheFirstOnes) {
  MakeInTurn();
  const auto results = RunAll({"answer", "last", "crash-early", "answer", "answer"});
  ExpectFinding(results[2], v1::VERDICT_ERROR, "crash", "worker killed by SIGSEGV");
  for (const std::size_t i : {0, 1, 3, 4}) EXPECT_EQ(results[i].verdict(), v1::VERDICT_PASSED) << i;
  EXPECT_THAT(restarts(), ElementsAre("crash"));
}

// A kernel may spoil what the worker needs for its answer.
TEST_F(CasesInTurn, ADeathBehindAllTurnsIsTheCasesThatDiesAlone) {
  MakeInTurn();
  const auto results = RunAll({"answer", "answer", "corrupt", "answer"});
  for (const std::size_t i : {0, 1, 3}) EXPECT_EQ(results[i].verdict(), v1::VERDICT_PASSED) << i;
  ExpectFinding(results[2], v1::VERDICT_ERROR, "crash", "worker killed by SIGSEGV");
  EXPECT_THAT(restarts(), ElementsAre("crash", "crash"));
}

// Cases that had passed in the lost call run again, though the death set the device aside.
TEST_F(CasesInTurn, AQuarantineIsForTheCasesBehindTheDeath) {
  SupervisorOptions options;
  options.deaths.in_a_row = 1;
  MakeInTurn(std::move(options));
  const auto results = RunAll({"answer", "answer", "crash", "answer"});
  EXPECT_NE(executor_->Describe().quarantine_reason(), "");
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED) << results[0].ShortDebugString();
  EXPECT_EQ(results[1].verdict(), v1::VERDICT_PASSED) << results[1].ShortDebugString();
  ExpectFinding(results[2], v1::VERDICT_ERROR, "crash", "worker killed by SIGSEGV");
  ExpectFinding(results[3], v1::VERDICT_ERROR, "fault", "device is quarantined");
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
  ExpectAHangIsItsOwn();
}

TEST_F(SharedLaunches, EachTurnHasTheTimeOfACase) {
  // Each turn takes two thirds of the limit, so both together take longer than it.
  for (const int seconds : kTrySeconds) {
    MakeSharing(absl::StrCat("FAKE_WORKER_SECONDS=", seconds));
    const auto results = RunAll({"answer", "slow", "slow"}, 1.5 * absl::Seconds(seconds));
    if (!restarts().empty() && seconds != *std::rbegin(kTrySeconds)) {
      const std::lock_guard lock(mutex_);
      restarts_.clear();
      continue;
    }
    for (const std::size_t i : {1, 2}) EXPECT_EQ(results[i].implementation(), "beside") << i;
    EXPECT_THAT(restarts(), ElementsAre());
    break;
  }
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
}  // namespace assay::server
