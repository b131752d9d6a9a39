// What `assay devices` says of a device's telemetry.
#include "client/cli/device_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TelemetryWords, NothingOfWhatIsNotKnown) { EXPECT_THAT(TelemetryWords({}), IsEmpty()); }

TEST(TelemetryWords, WhatIsKnownInUnitsAndCountersThatMoved) {
  v1::Telemetry t;
  t.set_temperature_celsius(61.4);
  t.set_power_watts(412.5);
  (*t.mutable_clock_hertz())["core"] = 1.98e9;
  (*t.mutable_clock_hertz())["memory"] = 2.6e9;
  (*t.mutable_throttle_seconds())["thermal"] = 0;
  (*t.mutable_throttle_seconds())["power"] = 12.5;
  (*t.mutable_ecc_errors())["corrected"] = 0;
  (*t.mutable_ecc_errors())["uncorrected"] = 1;
  (*t.mutable_faults())["xid-31"] = 0;
  (*t.mutable_faults())["xid-79"] = 2;
  EXPECT_THAT(TelemetryWords(t),
              ElementsAre("61 °C", "1.98 GHz", "412 W", "throttled: power 12.5 s",
                          "1 uncorrected ECC error", "2 xid-79"));
}

}  // namespace
}  // namespace assay::client
