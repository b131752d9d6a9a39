// assay qualify --expect-devices: what it takes, and what is said where a node has other devices.
#include "client/qualify/expected_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ExpectedDevices, AreANumberOfAnyOrOfABackend) {
  EXPECT_EQ(ParseExpectedDevices("8")->backend, "");
  EXPECT_EQ(ParseExpectedDevices("8")->count, 8);
  for (const char* backend : {"cpu", "cuda", "hip"}) {
    for (const int count : {0, 1, 1024}) {
      const auto expected = ParseExpectedDevices(absl::StrCat(backend, ":", count));
      EXPECT_EQ(expected->backend, backend);
      EXPECT_EQ(expected->count, count);
    }
  }
}

TEST(ExpectedDevices, WhatIsNeitherIsRefusedWithWhatWouldBeRight) {
  FakeService service;
  for (const std::string wrong :
       {"x", "-1", "+1", " 1", "1.5", "1025", "99999999999", ":", ":3", "cuda", "cuda:", "x:3",
        "CUDA:3", "cuda:-1", "cuda: 1", "cuda:*", "cuda:1025", "cuda:1:2", "1:cuda"}) {
    const Output output = Assay(service, {"qualify", "quick", "--expect-devices", wrong});
    EXPECT_EQ(output.code, 2) << wrong;
    EXPECT_THAT(
        output.err,
        HasSubstr("expect-devices: must be N or BACKEND:N, N from 0 to 1024 and BACKEND cpu, "
                  "cuda or hip, such as 8 or cuda:8, got \"" +
                  wrong + "\""));
  }
  EXPECT_EQ(Assay(service, {"qualify", "quick", "--expect-devices", ""}).err,
            "assay: expect-devices: takes [BACKEND:]N, got an empty text\n");
  EXPECT_EQ(service.jobs_made(), 0);
}

v1::Device DeviceOf(const std::string& backend, int number) {
  v1::Device device;
  device.set_id(absl::StrCat(backend, ":", number));
  device.set_name("devices/" + device.id());
  device.set_backend(backend);
  device.set_state(v1::DEVICE_STATE_READY);
  return device;
}

// A node with cpu:0 and these, and a backend cuda that says "no driver" of itself.
Output Qualified(const std::vector<v1::Device>& more, const std::string& expected,
                 const std::vector<std::string>& words = {}) {
  FakeService service;
  service.more_devices = more;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  std::vector<std::string> line = {"qualify",          "quick", "--no-selftest", "--format", "json",
                                   "--expect-devices", expected};
  line.insert(line.end(), words.begin(), words.end());
  return Assay(service, line);
}

nlohmann::json MissingOf(const Output& output) {
  return nlohmann::json::parse(output.out)["missing"];
}

// The node's only card is gone: the CPU is right, and is not what was asked for.
TEST(ExpectedDevices, TheProcessorDoesNotStandInForACardThatIsGone) {
  const Output output = Qualified({}, "cuda:1");
  EXPECT_EQ(output.code, 1) << output.out;
  const auto missing = MissingOf(output);
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0]["verdict"], "MISSING");
  EXPECT_EQ(missing[0]["code"], "A116");
  EXPECT_EQ(missing[0]["reason"],
            "expected 1 cuda device, found 0; looked at cpu:0 instead; cuda: no driver");
  EXPECT_EQ(missing[0]["expected"], 1);
  EXPECT_EQ(missing[0]["found"], 0);
  const auto device = nlohmann::json::parse(output.out)["devices"][0];
  EXPECT_EQ(device["device"], "cpu:0");
  EXPECT_EQ(device["verdict"], "QUALIFIED");
  EXPECT_THAT(output.err, HasSubstr("1 QUALIFIED of 1 device on 1 node, 1 device missing"));
  // A number alone does not tell them apart.
  EXPECT_EQ(Qualified({}, "1").code, 0);
}

TEST(ExpectedDevices, OfABackendAreCountedWithoutTheOthers) {
  const std::vector<v1::Device> cards = {DeviceOf("cuda", 0), DeviceOf("cuda", 1),
                                         DeviceOf("hip", 0)};
  for (const char* right : {"cuda:2", "hip:1", "cpu:1", "3"}) {
    const Output output = Qualified(cards, right);
    EXPECT_EQ(output.code, 0) << right << output.out;
    EXPECT_TRUE(MissingOf(output).empty()) << right;
  }
  const auto few = MissingOf(Qualified(cards, "cuda:4"));
  ASSERT_EQ(few.size(), 1U);
  EXPECT_EQ(few[0]["reason"], "expected 4 cuda devices, found 2");
  // Cards of another maker are no replacement either.
  const auto other = MissingOf(Qualified({DeviceOf("cuda", 0)}, "hip:1"));
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0]["reason"], "expected 1 hip device, found 0; looked at cuda:0 instead");
}

TEST(ExpectedDevices, MoreOfABackendProveNothing) {
  const Output output = Qualified({DeviceOf("cuda", 0), DeviceOf("cuda", 1)}, "cuda:1");
  EXPECT_EQ(output.code, 4) << output.out;
  const auto missing = MissingOf(output);
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0]["code"], "A904");
  EXPECT_EQ(missing[0]["reason"], "expected 1 cuda device, found 2");
  EXPECT_EQ(missing[0]["expected"], 1);
  EXPECT_EQ(missing[0]["found"], 2);
  EXPECT_THAT(output.err, HasSubstr("1 device more than expected"));
}

TEST(ExpectedDevices, OfABackendAreThereThoughTheyAreIgnoredOrNotAskedFor) {
  const std::vector<v1::Device> cards = {DeviceOf("cuda", 0), DeviceOf("cuda", 1)};
  const std::vector<std::string> ignore = {"--ignore", "cuda:1"};
  EXPECT_EQ(Qualified(cards, "cuda:2", ignore).code, 0);
  EXPECT_EQ(MissingOf(Qualified(cards, "cuda:3", ignore))[0]["reason"],
            "expected 3 cuda devices, found 2, with those that are ignored");
  EXPECT_EQ(Qualified(cards, "cuda:2", {"--device", "cuda:0"}).code, 0);
  EXPECT_EQ(Qualified(cards, "cuda:2", {"--device", "cpu:0"}).code, 0);
  // What was asked for by its name is in nobody's place.
  const auto named = MissingOf(Qualified({}, "cuda:1", {"--device", "cpu:0"}));
  EXPECT_EQ(named[0]["reason"], "expected 1 cuda device, found 0; cuda: no driver");
}

// One that the daemon was to use and cannot is missing by its name, too, but once.
TEST(ExpectedDevices, ACardThatCannotBeUsedIsNotThere) {
  v1::Device gone = DeviceOf("cuda", 1);
  gone.set_state(v1::DEVICE_STATE_UNAVAILABLE);
  gone.set_unavailable_reason("fell off the bus");
  const Output output = Qualified({DeviceOf("cuda", 0), gone}, "cuda:2");
  EXPECT_EQ(output.code, 1);
  const auto missing = MissingOf(output);
  ASSERT_EQ(missing.size(), 2U);
  EXPECT_EQ(missing[0]["reason"], "expected 2 cuda devices, found 1");
  EXPECT_EQ(missing[1]["reason"], "cuda:1: fell off the bus");
  EXPECT_THAT(output.err, HasSubstr(", 1 device missing"));
  EXPECT_THAT(output.err, Not(HasSubstr("2 devices missing")));
}

}  // namespace
}  // namespace assay::client::testing
