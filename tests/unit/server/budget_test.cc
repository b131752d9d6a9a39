// What still fits into the time a job has on a device.
#include "server/pass/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace assay::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

v1::CaseSpec Copy(std::int64_t count, const std::string& provider = "builtin") {
  v1::CaseSpec spec;
  spec.mutable_copy()->set_count(count);
  spec.set_dtype(v1::DTYPE_FP32);
  spec.set_provider(provider);
  return spec;
}

TEST(Budget, WithoutOneEverythingFits) {
  Budget budget(std::nullopt);
  budget.Took(Copy(8), 1e6);
  EXPECT_THAT(budget.WhyNot(Copy(1 << 20), 1e9), IsEmpty());
}

TEST(Budget, TheFirstOfAKindRunsWhileThereIsTime) {
  const Budget budget(10);
  EXPECT_THAT(budget.WhyNot(Copy(1 << 30), 9.99), IsEmpty());
  EXPECT_THAT(budget.WhyNot(Copy(8), 10), HasSubstr("the budget of 10 s is spent"));
}

TEST(Budget, LargerCasesArePredictedFromTheirWork) {
  Budget budget(10);
  budget.Took(Copy(1000), 0.01);
  EXPECT_THAT(budget.WhyNot(Copy(50'000), 0), IsEmpty());  // 0.5 s and a margin
  EXPECT_THAT(budget.WhyNot(Copy(200'000), 0),
              HasSubstr("more than a tenth of the budget of 10 s"));
  EXPECT_THAT(budget.WhyNot(Copy(50'000), 9.6), HasSubstr("0.4 s of the budget of 10 s are left"));
  // Of another provider the operator's rate is known.
  EXPECT_THAT(budget.WhyNot(Copy(50'000, "onednn"), 0), IsEmpty());
  EXPECT_THAT(budget.WhyNot(Copy(200'000, "onednn"), 0), HasSubstr("more than a tenth"));
}

TEST(Budget, ACaseThatWasSlowToStartIsNoMeasureOfItsKind) {
  Budget budget(20);
  budget.Took(Copy(1'000'000), 0.1);
  budget.Took(Copy(1000, "onednn"), 0.5);  // its library was loaded first
  EXPECT_THAT(budget.WhyNot(Copy(1'000'000, "onednn"), 1), IsEmpty());
}

TEST(Budget, ACaseThatRanIsKnownByItself) {
  Budget budget(10);
  v1::CaseSpec again = Copy(1000);
  budget.Took(again, 0.8);
  budget.Took(again, 0.2);
  budget.Took(Copy(10), 1e-4);  // the last of its kind
  again.set_seed(7);
  again.set_name("another");
  EXPECT_THAT(budget.WhyNot(again, 9.0), IsEmpty());
  EXPECT_THAT(budget.WhyNot(again, 9.2), HasSubstr("are left")) << "the longer of its times counts";
}

// Repeated launches are quick for their work, and say nothing of a reference's time.
TEST(Budget, WhatIsRepeatedOrScreenedIsNoMeasureOfWhatIsJudged) {
  Budget budget(100);
  budget.Took(Copy(1'000'000), 0.1);
  v1::CaseSpec repeated = Copy(1'000'000);
  repeated.set_repeats(500);
  budget.Took(repeated, 0.2);
  v1::CaseSpec screened = Copy(1'000'000);
  screened.set_verify(v1::VERIFICATION_CHECKSUM);
  budget.Took(screened, 0.001);
  EXPECT_THAT(budget.WhyNot(Copy(200'000'000), 0), HasSubstr("it would take 23 s"));
}

v1::CaseSpec Timed(std::int64_t count) {
  v1::CaseSpec spec = Copy(count);
  spec.set_mode(v1::MODE_BOTH);
  spec.mutable_deadline()->set_seconds(60);
  return spec;
}

// Launches go on for half a second or two, whatever their size.
TEST(Budget, TimingDoesNotGrowWithTheWork) {
  Budget budget(1000);
  budget.Took(Timed(1000), 2.1, {.seconds = 2.0, .launch = 0.001});
  EXPECT_THAT(budget.WhyNot(Timed(8000), 0), IsEmpty());
  EXPECT_THAT(budget.WhyNot(Timed(50'000), 0), IsEmpty()) << "50 times 0.112 s, and 2 s";
  EXPECT_THAT(budget.WhyNot(Timed(100'000), 0), HasSubstr("too near to its deadline"));
}

// A few launches there must be.
TEST(Budget, LongLaunchesAreTimedForLonger) {
  Budget budget(1000);
  budget.Took(Timed(1000), 2.1, {.seconds = 2.0, .launch = 0.1});
  EXPECT_THAT(budget.WhyNot(Timed(4000), 0), IsEmpty());
  EXPECT_THAT(budget.WhyNot(Timed(8000), 0), HasSubstr("too near to its deadline"));
}

// Its reference took too long; that of another provider or format would, too.
TEST(Budget, WhatIsAsLargeAsOneThatWasEndedByItsDeadlineDoesNotFit) {
  Budget budget(1000);
  budget.Took(Copy(1000), 1e-6);
  budget.EndedLate(Copy(1'000'000));
  EXPECT_THAT(budget.WhyNot(Copy(999'999), 0), IsEmpty());
  EXPECT_THAT(budget.WhyNot(Copy(1'000'000, "onednn"), 0), HasSubstr("ended by its deadline"));
  v1::CaseSpec screened = Copy(1'000'000);
  screened.set_verify(v1::VERIFICATION_CHECKSUM);
  EXPECT_THAT(budget.WhyNot(screened, 0), IsEmpty());
  Budget none(std::nullopt);
  none.EndedLate(Copy(10));
  EXPECT_THAT(none.WhyNot(Copy(10), 0), IsEmpty());
}

// A right kernel on a slow device is not to be called one that hangs.
TEST(Budget, ACaseNearItsDeadlineDoesNotFit) {
  Budget budget(1000);
  budget.Took(Copy(1000), 0.01);
  v1::CaseSpec long_one = Copy(2'000'000);  // 20 s and a margin
  EXPECT_THAT(budget.WhyNot(long_one, 0), IsEmpty());
  long_one.mutable_deadline()->set_seconds(60);
  EXPECT_THAT(budget.WhyNot(long_one, 0), HasSubstr("too near to its deadline of 60 s"));
  long_one.mutable_deadline()->set_seconds(200);
  EXPECT_THAT(budget.WhyNot(long_one, 0), IsEmpty());
}

}  // namespace
}  // namespace assay::server
