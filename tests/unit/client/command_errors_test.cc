// What commands say of lines that are wrong, and of what a daemon refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/lib/errors.h"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Errors, EachBadFieldIsALineInTheUsersWords) {
  FakeService service;
  service.create_status = BadRequest({{"spec.cases.cases[0].gemm.m", "must be at least 1, got 0"},
                                      {"spec.cases.cases[1].gemm.m", "must be at least 1, got 0"},
                                      {"spec.cases[0].dtype", "is required"},
                                      {"spec.suite_text", "mine.toml:3:1: unknown key"}});
  const Output output = RunGemm(service);
  EXPECT_EQ(output.code, 2);
  EXPECT_EQ(output.err,
            "assay: gemm.m: must be at least 1, got 0 (2 cases)\n"
            "assay: dtype: is required\n"
            "assay: mine.toml:3:1: unknown key\n");
}

TEST(Errors, AnExtentThatWasNotSaidIsRequired) {
  FakeService service;
  service.create_status = BadRequest({{"spec.cases.cases[0].gemm.m", "must be at least 1, got 0"},
                                      {"spec.cases.cases[0].gemm.k", "must be at least 1, got 0"}});
  const Output output = Assay(service, {"run", "gemm", "--m", "0", "--n", "4"});
  EXPECT_EQ(output.code, 2);
  EXPECT_EQ(output.err, "assay: gemm.m: must be at least 1, got 0\nassay: gemm.k: is required\n");
}

TEST(Errors, WhatElseIsWrongWithAnExtentThatWasNotSaidStays) {
  FakeService service;
  service.create_status = BadRequest({{"spec.cases.cases[0].gemm.k", "must be at least 1, got 0"},
                                      {"spec.cases.cases[0].gemm.k", "is too small for e2m1"},
                                      {"spec.cases.cases[1].gemm.k", "must be at least 1, got 0"}});
  EXPECT_EQ(Assay(service, {"run", "gemm", "--m", "4", "--n", "4"}).err,
            "assay: gemm.k: is required (2 cases)\nassay: gemm.k: is too small for e2m1\n");
}

TEST(Errors, WhatContradictsItselfIsRefused) {
  FakeService service;
  const Output modes = Assay(service, {"run", "gemm", "--m", "4", "--bench", "--mode", "validate"});
  EXPECT_EQ(modes.code, 2);
  EXPECT_THAT(modes.err, StartsWith("assay: mode: --bench is --mode benchmark, got validate"));
  const Output empty = Assay(service, {"run", "--suite", "smoke", "--dtype", "fp32,,fp16"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, StartsWith("assay: dtype: an entry of the list is empty"));
  const Output slice = Assay(service, {"bench", "gemm", "--m", "4", "--slice", "actual[0]"});
  EXPECT_EQ(slice.code, 2);
  EXPECT_THAT(slice.err, StartsWith("assay: slice: the table of times shows no elements"));
  EXPECT_TRUE(service.created().empty());
}

// A variable that a script did not set must not choose another device, target or kernel.
TEST(Errors, AnEmptyTextIsNoValue) {
  FakeService service;
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines = {
      {{"run", "gemm", "--m", "4", "--device", ""}, "device: takes ID"},
      {{"run", "gemm", "--m", "4", "--dtype", "fp32", "--dtype", ""}, "dtype: takes "},
      {{"run", "--suite", "smoke", "--label", ""}, "label: takes KEY=VALUE"},
      {{"run", "--kernel", "", "gemm", "--m", "4"}, "kernel: takes FILE"},
      {{"devices", "--output", ""}, "output: takes FILE"},
      {{"qualify", ""}, "level: takes LEVEL"},
      {{"cancel", "a", ""}, "job: takes "}};
  for (const auto& [line, said] : lines) {
    const Output output = Assay(service, line);
    EXPECT_EQ(output.code, 2) << said;
    EXPECT_THAT(output.err, StartsWith("assay: " + said));
    EXPECT_THAT(output.err, HasSubstr(", got an empty text\n"));
  }
  EXPECT_EQ(Assay({"devices", "--target", ""}).err,
            "assay: target: takes LIST, got an empty text\n");
  EXPECT_TRUE(service.created().empty());
}

// --filter of assay jobs was called "filter (--name, …)", --compare "inline_baseline".
TEST(Errors, AFieldIsCalledAsItsOptionIs) {
  FakeService service;
  const auto said = [&](const char* field, std::vector<std::string> args) {
    service.create_status = BadRequest({{field, "is wrong"}});
    return Assay(service, std::move(args)).err;
  };
  const std::vector<std::string> run = {"run", "copy", "--count", "4", "--dtype", "fp32"};
  EXPECT_EQ(said("spec.filter", run),
            "assay: filter (--name, --op, --provider, --dtype): is wrong\n");
  EXPECT_EQ(said("spec.slices[1]", run), "assay: slices[1]: is wrong\n") << "which of several";
  EXPECT_EQ(said("spec.baseline_threshold", run), "assay: threshold: is wrong\n");
  EXPECT_EQ(said("spec.deadline", run), "assay: job-deadline: is wrong\n");
  EXPECT_EQ(said("spec.case_deadline", run), "assay: case-deadline: is wrong\n");
  EXPECT_EQ(said("spec.cases.cases[0].deadline", run), "assay: deadline: is wrong\n");
  std::vector<std::string> held = run;
  held.insert(held.end(), {"--compare", "nightly"});
  EXPECT_EQ(said("spec.baseline", held), "assay: compare: is wrong\n");
  EXPECT_EQ(said("spec.inline_baseline", held), "assay: compare: is wrong\n");
  service.create_status =
      NotFound(v1::ERROR_REASON_BASELINE_NOT_FOUND, "no baseline \"baselines/nightly\"");
  EXPECT_EQ(Assay(service, held).err,
            "assay: compare: no baseline \"baselines/nightly\" (assay baseline list)\n");
  EXPECT_EQ(Describe(BadRequest({{"filter", "unknown key \"x\""}}), "a").lines,
            std::vector<std::string>{"filter: unknown key \"x\""});
  EXPECT_EQ(Describe(BadRequest({{"baseline_id", "is wrong"}}), "a").lines,
            std::vector<std::string>{"name: is wrong"});
}

TEST(Errors, ADefectIsNoProvider) {
  FakeService service;
  service.create_status =
      BadRequest({{"spec.filter.providers[0]",
                   "unknown provider \"planted/rac\"; did you mean \"planted/race\"?"}});
  EXPECT_EQ(Assay(service, {"selftest", "--defect", "rac"}).err,
            "assay: defect: unknown defect \"rac\"; did you mean \"race\"? (assay kernels "
            "--planted)\n");
}

TEST(Errors, WhatIsNotThereIsListedSomewhere) {
  FakeService service;
  EXPECT_EQ(Assay(service, {"watch", "nope"}).err, "assay: no job \"jobs/nope\" (assay jobs)\n");
  EXPECT_THAT(Assay(service, {"devices", "release", "cpu:9"}).err, HasSubstr("(assay devices)"));
}

// CLI11's own words name no value, or no option.
TEST(Errors, AnOptionOfTheWrongKindIsNamedWithWhatItTakes) {
  EXPECT_EQ(Assay({"run", "gemm", "--priority", "x"}).err,
            "assay: priority: must be a whole number, got \"x\"\n");
  EXPECT_EQ(Assay({"selftest", "--trials", "0"}).err,
            "assay: trials: must be a whole number from 1 to 100, got \"0\"\n");
  EXPECT_EQ(Assay({"selftest", "--trials=101"}).err,
            "assay: trials: must be a whole number from 1 to 100, got \"101\"\n");
  EXPECT_EQ(Assay({"run", "--bench=maybe", "gemm"}).err,
            "assay: bench: must be true or false, got \"maybe\"\n");
  EXPECT_EQ(Assay({"jobs", "--format"}).err, "assay: format: takes WORD, got nothing\n");
  EXPECT_EQ(Assay({"jobs", "--limit="}).err, "assay: limit: takes N, got nothing\n");
  EXPECT_EQ(Assay({"run", "gemm", "--trans-a", "--m"}).err, "assay: m: takes N, got nothing\n");
  EXPECT_EQ(Assay({"watch"}).err, "assay: job: is required: jobs/4f2k, or 4f2k\n");
  EXPECT_EQ(Assay({"baseline"}).err,
            "assay: baseline: say which command: save, list, show, compare, delete\n");
  EXPECT_EQ(
      Assay({"baseline", "frob"}).err,
      "assay: baseline: say which command: save, list, show, compare, delete; got \"frob\"\n");
}

// Commands that do not reconnect took any word.
TEST(Errors, ReconnectIsATimeOfEveryCommand) {
  FakeService service;
  for (const char* command : {"jobs", "devices"}) {
    const Output output = Assay(service, {command, "--reconnect", "soon"});
    EXPECT_EQ(output.code, 2);
    EXPECT_THAT(output.err, StartsWith("assay: reconnect: must be a duration"));
  }
  EXPECT_THAT(Assay(service, {"jobs", "--reconnect", "-5s"}).err,
              StartsWith("assay: reconnect: must be 0 (not at all) or more"));
  EXPECT_EQ(Assay(service, {"jobs", "--reconnect", "0"}).code, 0);
}

// Single launches were ranked beside one another; and a share of no time ran to its end.
TEST(Errors, WhatNeedsTimesIsRefusedWithoutThem) {
  FakeService service;
  const Output ranks =
      Assay(service, {"bench", "copy", "--count", "4", "--dtype", "fp32", "--mode", "validate"});
  EXPECT_EQ(ranks.code, 2);
  EXPECT_THAT(ranks.err, StartsWith("assay: mode: bench ranks by times"));
  const Output share = RunGemm(service, {"--min-efficiency", "40%"});
  EXPECT_EQ(share.code, 2);
  EXPECT_THAT(share.err, StartsWith("assay: min-efficiency: needs times"));
  EXPECT_EQ(RunGemm(service, {"--min-efficiency", "40", "--bench"}).err,
            "assay: min_efficiency: must be from 0 to 1, got 40; say 40% or 0.4\n");
  EXPECT_TRUE(service.created().empty());
  EXPECT_EQ(RunGemm(service, {"--min-efficiency", "40%", "--mode", "both"}).code, 0);
}

TEST(Errors, UnknownWordsAnswerWithTheNearAndTheKnown) {
  EXPECT_THAT(Assay({"run", "gemm", "--dtype", "fp15"}).err,
              StartsWith("assay: dtype: unknown type \"fp15\"; did you mean \"fp16\"? Known: "
                         "fp64, fp32, "));
  EXPECT_THAT(Assay({"run", "gem"}).err, HasSubstr("did you mean \"gemm\"?"));
  EXPECT_THAT(Assay({"run", "gemm", "--tran-a"}).err, HasSubstr("did you mean \"--trans-a\"?"));
  EXPECT_THAT(Assay({"run", "gemm", "--format", "jsn"}).err, HasSubstr("did you mean \"json\"?"));
  EXPECT_EQ(Assay({"run", "gemm", "--dtype", "fp15"}).code, 2);
  EXPECT_EQ(Assay({"run"}).code, 2);
  EXPECT_EQ(Assay({"run", "gemm", "--suite", "smoke"}).code, 2);
  EXPECT_EQ(Assay(std::vector<std::string>{}).code, 2);
}

TEST(Errors, AnUnknownSuiteAnswersWithTheNearOne) {
  FakeService service;
  service.create_status = {grpc::StatusCode::NOT_FOUND, "no suite \"nigthly\""};
  const Output output = Assay(service, {"run", "--suite", "nigthly"});
  EXPECT_EQ(output.code, 2);
  EXPECT_EQ(output.err, "assay: no suite \"nigthly\" on " + service.target() +
                            "; did you mean \"nightly\"? (assay suites)\n");
}

TEST(Errors, EverythingWrongIsSaidAtOnce) {
  const Output output =
      Assay({"run", "gemm", "--m", "x", "--dtype", "fp15,fp17", "--label", "nope"});
  EXPECT_THAT(output.err, HasSubstr("gemm.m: must be a whole number, got \"x\""));
  EXPECT_THAT(output.err, HasSubstr("\"fp15\""));
  EXPECT_THAT(output.err, HasSubstr("\"fp17\""));
  EXPECT_THAT(output.err, HasSubstr("label: must be KEY=VALUE"));
}

// A terminal would obey it. The text of files and names of files are strangers' words, too.
TEST(Errors, WhatADaemonOrAFileSaysSendsNothingToTheTerminal) {
  FakeService service;
  const std::string hostile = "a\x1b[2Jb\u202e";
  service.create_status = BadRequest({{"spec.suite_text", "mine.toml:3:1: no type " + hostile}});
  EXPECT_EQ(RunGemm(service).err, "assay: mine.toml:3:1: no type a?[2Jb?\n");
  service.create_status = {grpc::StatusCode::FAILED_PRECONDITION, hostile + "\nand more"};
  EXPECT_EQ(RunGemm(service).err,
            "assay: assayd at " + service.target() + " refused: a?[2Jb?\nand more\n");
  EXPECT_THAT(Assay(service, {"compare", hostile, "b.npy"}).err,
              StartsWith("assay: a?[2Jb?: cannot be read"));
  EXPECT_THAT(Assay({"run", hostile}).err, HasSubstr("\"a?[2Jb?\""));
  service.more_info.set_version(hostile);
  EXPECT_THAT(Assay(service, {"version"}).out, HasSubstr("assayd a?[2Jb? at "));
  v1::Device device;
  device.set_id("cuda:0");
  device.set_quarantine_reason(hostile);
  (*device.mutable_properties())[hostile] = hostile;
  service.more_devices = {device};
  EXPECT_THAT(Assay(service, {"devices"}).out, HasSubstr("a?[2Jb?"));
  EXPECT_THAT(Assay(service, {"devices", "--format", "json"}).out,
              HasSubstr("\"a?[2Jb?\": \"a?[2Jb?\""));
}

}  // namespace
}  // namespace assay::client::testing
