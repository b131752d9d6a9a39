// Counters since the daemon's start, of counters that begin anywhere and go back.
#include "server/telemetry/accumulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::server {
namespace {

using ::testing::IsEmpty;

v1::Telemetry Counters(double throttled, std::int64_t ecc, std::int64_t faults) {
  v1::Telemetry t;
  (*t.mutable_throttle_seconds())["power"] = throttled;
  (*t.mutable_ecc_errors())["corrected"] = ecc;
  (*t.mutable_faults())["xid-79"] = faults;
  return t;
}

TEST(Accumulator, CountersBeginWithTheDaemonAndNeverGoBack) {
  TelemetryAccumulator sums;
  sums.ProcessStarted();
  const auto expect = [&](v1::Telemetry t, double throttled, std::int64_t ecc,
                          std::int64_t faults) {
    sums.Apply(&t);
    EXPECT_EQ(t.throttle_seconds().at("power"), throttled);
    EXPECT_EQ(t.ecc_errors().at("corrected"), ecc);
    EXPECT_EQ(t.faults().at("xid-79"), faults);
  };
  expect(Counters(500, 40, 1), 0, 0, 1);  // what came before is not ours; a fault just came
  expect(Counters(503, 42, 1), 3, 2, 1);
  for (int n = 0; n < kSettled; ++n) expect(Counters(1, 1, 1), 3, 2, 1);  // loaded again
  expect(Counters(2, 1, 2), 4, 2, 2);
  sums.ProcessStarted();
  expect(Counters(2, 1, 0), 4, 2, 2);
  sums.ProcessStarted();
  expect(Counters(2, 1, 3), 4, 2, 5);  // three more since that process began
  v1::Telemetry none;
  sums.Apply(&none);
  EXPECT_THAT(none.throttle_seconds(), IsEmpty());
  expect(Counters(3, 1, 3), 5, 2, 5);
}

TEST(Accumulator, APartThatCouldNotBeReadIsNoHistory) {
  TelemetryAccumulator sums;
  const auto ecc = [&sums](std::int64_t value) {
    v1::Telemetry t = Counters(0, value, 0);
    sums.Apply(&t);
    return t.ecc_errors().at("corrected");
  };
  EXPECT_EQ(ecc(1005), 0);  // of two controllers: 1000 and 5
  EXPECT_EQ(ecc(5), 0);     // the first did not answer
  EXPECT_EQ(ecc(5), 0);
  EXPECT_EQ(ecc(1006), 1);
  for (int n = 0; n < 2 * kSettled; ++n) EXPECT_EQ(ecc(100), 1);
  EXPECT_EQ(ecc(1006), 1) << "back where it was, after a long gap";
  EXPECT_EQ(ecc(1008), 3);
}

TEST(Accumulator, AfterANewBeginningEachStepCounts) {
  TelemetryAccumulator sums;
  const auto ecc = [&sums](std::int64_t value) {
    v1::Telemetry t = Counters(0, value, 0);
    sums.Apply(&t);
    return t.ecc_errors().at("corrected");
  };
  EXPECT_EQ(ecc(10), 0);
  for (int n = 0; n < kSettled; ++n) EXPECT_EQ(ecc(0), 0);
  for (std::int64_t value = 1; value < 10; ++value) EXPECT_EQ(ecc(value), value);
}

}  // namespace
}  // namespace assay::server
