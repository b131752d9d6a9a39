// Cases whose kernel is a function of a caller's process, over a fake worker: callers that answer,
// that are slow and that go away, and workers that die meanwhile.
#include <deque>
#include <functional>
#include <optional>

#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "tests/unit/server/supervisor_fixture.h"

namespace assay::server {
namespace {

// A caller that answers each launch at once, later, or never.
class Caller final : public CallerLink {
 public:
  explicit Caller(absl::Duration limit = kSoon) : limit_(limit) {}

  bool answers = true;
  int rooms = 1 << 20;  // messages that it takes
  bool gone = false;
  bool half = false;     // answers a launch with bytes alone
  absl::Duration takes;  // from a launch to its answer
  NextMessage Take(v1::ValidateExternalRequest* message) override {
    const std::lock_guard lock(mutex_);
    if (gone) return NextMessage::kGone;
    if (answers_.empty() || EvenTime() < answer_at_) return NextMessage::kWait;
    *message = answers_.front();
    answers_.pop_front();
    return NextMessage::kPiece;
  }
  void SetWake(std::function<void()>) override {}  // the call looks by itself
  bool Give(v1::ValidateExternalResponse* ask) override {
    const std::lock_guard lock(mutex_);
    if (failure_) return true;
    if (rooms-- <= 0) return false;
    if (!ask->has_launch() || !answers) return true;
    answer_at_ = EvenTime() + takes;
    if (half) {
      answers_.emplace_back().mutable_chunk()->set_data("1234");
    } else {
      answers_.emplace_back().mutable_launched()->set_end(v1::LAUNCH_END_RETURNED);
    }
    return true;
  }
  std::optional<v1::Finding> failure() override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void Fail(v1::Finding why) override {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
  }
  absl::Duration launch_deadline() const override { return limit_; }

 private:
  const absl::Duration limit_;
  std::mutex mutex_;
  absl::Time answer_at_ = absl::InfinitePast();
  std::deque<v1::ValidateExternalRequest> answers_;
  std::optional<v1::Finding> failure_;
};

class ElsewhereTest : public SupervisorTest {
 protected:
  v1::CaseResult RunFor(CallerLink& caller, const std::string& mode = "",
                        absl::Duration limit = kSoon) {
    v1::CaseSpec spec;
    spec.set_name(mode);
    spec.set_provider("external");
    spec.mutable_copy()->set_count(1);
    return executor_->ExecuteElsewhere(spec, 7, limit, cancel_, caller);
  }
};

TEST_F(ElsewhereTest, ACallerThatAnswersGetsItsResult) {
  Make();
  Caller caller;
  const v1::CaseResult result = RunFor(caller);
  EXPECT_EQ(result.verdict(), v1::VERDICT_PASSED) << result.ShortDebugString();
  EXPECT_EQ(result.index(), 7);
  EXPECT_TRUE(result.has_duration());
}

TEST_F(ElsewhereTest, ASlowCallerIsToBlameAndTheWorkerGoesOn) {
  Make();
  Caller caller(absl::Milliseconds(30));
  caller.answers = false;
  v1::CaseResult result = RunFor(caller);
  ExpectFinding(result, v1::VERDICT_ERROR, "timeout", "within 30ms (launch_deadline)");
  EXPECT_EQ(result.findings(0).blame(), v1::BLAME_CALLER);
  result = RunFor(caller);
  ExpectFinding(result, v1::VERDICT_SKIPPED, "timeout", "launch_deadline");
  Caller other;
  EXPECT_EQ(RunFor(other).verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(restarts(), ::testing::IsEmpty());
}

TEST_F(ElsewhereTest, ACallerThatTakesNothingIsSlow) {
  Make();
  for (const int rooms : {0, 1}) {  // not what is computed, not the launch
    Caller caller(absl::Milliseconds(30));
    caller.rooms = rooms;
    ExpectFinding(RunFor(caller), v1::VERDICT_ERROR, "timeout", "launch_deadline");
  }
  EXPECT_THAT(restarts(), ::testing::IsEmpty());
}

TEST_F(ElsewhereTest, TheCallersTimeDoesNotCountTowardsTheCasesDeadline) {
  Make();
  for (const int seconds : kTrySeconds) {
    Caller caller;
    caller.takes = absl::Seconds(seconds);  // as long as the worker has for the rest
    if (RunFor(caller, "", absl::Seconds(seconds)).verdict() == v1::VERDICT_PASSED) return;
  }
  FAIL() << "no case had its own time";
}

TEST_F(ElsewhereTest, AfterACaseThatEndedInsideALaunchTheRestIsSkipped) {
  Make();
  Caller caller;
  caller.half = true;
  ExpectFinding(RunFor(caller, "crash-inside"), v1::VERDICT_ERROR, "crash", "SIGSEGV");
  ExpectFinding(RunFor(caller), v1::VERDICT_SKIPPED, "cancelled", "a case before ended");
  Caller other;
  other.half = true;
  ExpectFinding(RunFor(other, "end-inside"), v1::VERDICT_ERROR, "fault", "not an answer");
  const v1::CaseResult rest = RunFor(other);
  ExpectFinding(rest, v1::VERDICT_SKIPPED, "cancelled", "a case before ended");
  EXPECT_EQ(rest.findings(0).blame(), v1::BLAME_CALLER);
}

TEST_F(ElsewhereTest, ACallerThatHasGoneIsSkipped) {
  Make();
  Caller caller;
  caller.gone = true;
  const v1::CaseResult result = RunFor(caller);
  ExpectFinding(result, v1::VERDICT_SKIPPED, "cancelled", "the caller has gone");
  EXPECT_EQ(result.findings(0).blame(), v1::BLAME_CALLER);
  EXPECT_THAT(restarts(), ::testing::IsEmpty());
}

TEST_F(ElsewhereTest, ADeadWorkerIsReplacedAndNeverCounts) {
  SupervisorOptions options;
  options.deaths.in_a_row = 1;
  Make(std::move(options));
  Caller caller;
  for (int i = 0; i < 4; ++i) {
    ExpectFinding(RunFor(caller, "crash"), v1::VERDICT_ERROR, "crash", "SIGSEGV");
  }
  EXPECT_EQ(executor_->Describe().state(), v1::DEVICE_STATE_READY);
  EXPECT_EQ(RunFor(caller).verdict(), v1::VERDICT_PASSED);
}

TEST_F(ElsewhereTest, AWorkerThatHangsIsKilledAtTheCasesDeadline) {
  Make();
  for (const int seconds : kTrySeconds) {
    Caller caller;
    const v1::CaseResult result = RunFor(caller, "hang", absl::Seconds(seconds));
    if (result.findings(0).blame() == v1::BLAME_CALLER) continue;  // it was slow to get there
    return ExpectFinding(result, v1::VERDICT_ERROR, "timeout", "in the kernel under test");
  }
  FAIL() << "the worker never came to hang";
}

TEST_F(ElsewhereTest, AWorkerWithoutAResultIsAFault) {
  Make();
  Caller caller;
  ExpectFinding(RunFor(caller, "silent"), v1::VERDICT_ERROR, "fault", "without a result");
}

TEST_F(ElsewhereTest, ACancelledCaseIsSkipped) {
  Make();
  Caller caller;
  cancel_.Cancel();
  ExpectFinding(RunFor(caller), v1::VERDICT_SKIPPED, "cancelled", "before it began");
}

}  // namespace
}  // namespace assay::server
