// When a worker that keeps dying may start again, and when its device is quarantined.
#include "server/worker/death_toll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/finding.h"

namespace assay::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr DeathLimits kLimits{.in_a_row = 3,
                              .in_window = 5,
                              .window = absl::Minutes(10),
                              .longest_back_off = absl::Seconds(4)};

Death Crash(bool counts = true) {
  return {.finding = MakeFinding(v1::REASON_CRASH, "worker killed by SIGSEGV"),
          .restart_reason = "crash",
          .counts = counts,
          .planted = !counts};
}

TEST(DeathToll, TheFirstWorkerStartsAtOnceAndLaterOnesEverLater) {
  DeathToll toll({.in_a_row = 100, .in_window = 100, .longest_back_off = absl::Seconds(4)});
  EXPECT_EQ(toll.next_start(), absl::InfinitePast());
  const absl::Time now = absl::FromUnixSeconds(1'000);
  for (const int seconds : {0, 1, 2, 4, 4}) {
    EXPECT_THAT(toll.Add(Crash(), now), IsEmpty());
    EXPECT_EQ(toll.next_start(), now + absl::Seconds(seconds));
  }
  toll.Answered();
  toll.Add(Crash(), now);
  EXPECT_EQ(toll.next_start(), now);
}

TEST(DeathToll, SoManyInARowQuarantine) {
  DeathToll toll(kLimits);
  const absl::Time now = absl::FromUnixSeconds(1'000);
  EXPECT_THAT(toll.Add(Crash(), now), IsEmpty());
  EXPECT_THAT(toll.Add(Crash(), now), IsEmpty());
  toll.Answered();
  EXPECT_THAT(toll.Add(Crash(), now), IsEmpty()) << "a case was answered between";
  EXPECT_THAT(toll.Add(Crash(), now), IsEmpty());
}

TEST(DeathToll, TheReasonSaysHowManyAndTheLast) {
  DeathToll toll(kLimits);
  const absl::Time now = absl::FromUnixSeconds(1'000);
  toll.Add(Crash(), now);
  toll.Add(Crash(), now);
  EXPECT_EQ(toll.Add(Crash(), now),
            "3 deaths of its worker in a row, the last: worker killed by SIGSEGV");
}

TEST(DeathToll, SoManyWithinTheWindowQuarantineThoughCasesAreAnswered) {
  DeathToll toll(kLimits);
  absl::Time now = absl::FromUnixSeconds(1'000);
  // One in three minutes is never five in ten.
  for (int i = 0; i < 20; ++i, now += absl::Minutes(3)) {
    EXPECT_THAT(toll.Add(Crash(), now), IsEmpty()) << i;
    toll.Answered();
  }
  std::string reason;
  for (int i = 0; i < 3; ++i, now += absl::Minutes(1)) {
    reason = toll.Add(Crash(), now);
    toll.Answered();
  }
  EXPECT_THAT(reason, HasSubstr(" deaths of its worker within 10m, the last: worker killed"));
}

TEST(DeathToll, WhatIsDoneOnPurposeDoesNotQuarantineAndForgivingForgets) {
  DeathToll toll(kLimits);
  const absl::Time now = absl::FromUnixSeconds(1'000);
  for (int i = 0; i < 10; ++i) EXPECT_THAT(toll.Add(Crash(/*counts=*/false), now), IsEmpty());
  EXPECT_GT(toll.next_start(), now) << "it waits all the same";
  toll.Add(Crash(), now);
  toll.Add(Crash(), now);
  toll.Forgive();
  EXPECT_EQ(toll.next_start(), absl::InfinitePast());
  EXPECT_THAT(toll.Add(Crash(), now), IsEmpty());
}

}  // namespace
}  // namespace assay::server
