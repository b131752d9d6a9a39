// Commands against a fake daemon: exit codes, what is asked, what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_split.h"
#include "client/lib/errors.h"
#include "client/report/units.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ExitCode, TheJobsVerdictDecides) {
  const struct {
    v1::Verdict verdict;
    int code;
  } kCases[] = {{v1::VERDICT_PASSED, 0},
                {v1::VERDICT_FAILED, 1},
                {v1::VERDICT_INCONCLUSIVE, 4},
                {v1::VERDICT_UNSPECIFIED, 4}};
  for (const auto& [verdict, code] : kCases) {
    FakeService service;
    service.results = {MakeResult(0, v1::VERDICT_PASSED)};
    service.verdict = verdict;
    EXPECT_EQ(RunGemm(service).code, code) << v1::Verdict_Name(verdict);
  }
}

TEST(ExitCode, EachRefusalHasItsCode) {
  const struct {
    grpc::StatusCode status;
    int code;
  } kCases[] = {{grpc::StatusCode::INVALID_ARGUMENT, 2},  {grpc::StatusCode::NOT_FOUND, 2},
                {grpc::StatusCode::UNAVAILABLE, 3},       {grpc::StatusCode::RESOURCE_EXHAUSTED, 3},
                {grpc::StatusCode::PERMISSION_DENIED, 3}, {grpc::StatusCode::UNAUTHENTICATED, 3},
                {grpc::StatusCode::INTERNAL, 3},          {grpc::StatusCode::UNIMPLEMENTED, 3}};
  for (const auto& [status, code] : kCases) {
    FakeService service;
    service.create_status = {status, "said so"};
    const Output output = RunGemm(service);
    EXPECT_EQ(output.code, code) << status;
    EXPECT_THAT(output.err, HasSubstr("said so"));
    EXPECT_EQ(output.out, "");
  }
}

TEST(ExitCode, ADaemonThatIsNotThereIsThreeAndOneClearLine) {
  std::string target;
  { target = FakeService().target(); }  // a port that was free a moment ago
  const Output output = Assay({"devices", "--target", target});
  EXPECT_EQ(output.code, 3);
  EXPECT_EQ(output.err, "assay: cannot reach assayd at " + target +
                            ": connection refused. Is it running? Set --target or "
                            "ASSAY_TARGET.\n");
}

TEST(ExitCode, WatchTakesTheVerdictToo) {
  FakeService service;
  service.verdict = v1::VERDICT_FAILED;
  service.results = {MakeResult(0, v1::VERDICT_FAILED)};
  EXPECT_EQ(Assay(service, {"watch", "4f2k"}).code, 1);
  EXPECT_EQ(Assay(service, {"watch", "jobs/nope"}).code, 2);
}

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

TEST(Request, CarriesEveryOption) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  ASSERT_EQ(Assay(service, {"run",
                            "attention",
                            "--heads",
                            "16",
                            "--seq",
                            "2048",
                            "--dim",
                            "64",
                            "--causal",
                            "--mask-density",
                            "0.5",
                            "--dtype",
                            "fp16",
                            "--atol",
                            "0",
                            "--criterion",
                            "allclose",
                            "--repeat",
                            "3",
                            "--seed",
                            "9",
                            "--bench",
                            "--deadline",
                            "500ms",
                            "--wait-for-others",
                            "10m",
                            "--job-deadline",
                            "1m",
                            "--case-deadline",
                            "10",
                            "--priority",
                            "-5",
                            "--label",
                            "a=1",
                            "--label",
                            "b=x=y",
                            "--resume",
                            "--device",
                            "cpu:0",
                            "--provider",
                            "builtin"})
                .code,
            0);
  const v1::JobSpec spec = service.created().at(0).spec();
  ASSERT_EQ(spec.cases().cases_size(), 1);
  const v1::CaseSpec& one = spec.cases().cases(0);
  EXPECT_EQ(one.attention().heads(), 16);
  EXPECT_TRUE(one.attention().causal());
  EXPECT_EQ(one.attention().mask_density(), 0.5);
  EXPECT_EQ(one.dtype(), v1::DTYPE_FP16);
  EXPECT_TRUE(one.has_atol());  // a tolerance of 0 is a tolerance
  EXPECT_EQ(one.criterion(), v1::CRITERION_ALLCLOSE);
  EXPECT_EQ(one.repeats(), 3);
  EXPECT_EQ(one.deadline().nanos(), 500'000'000);
  EXPECT_EQ(one.provider(), "builtin");
  EXPECT_EQ(spec.seed(), 9U);
  EXPECT_EQ(spec.mode(), v1::MODE_BENCHMARK);
  EXPECT_EQ(spec.deadline().seconds(), 60);
  EXPECT_EQ(spec.case_deadline().seconds(), 10);
  EXPECT_EQ(spec.wait_for_others().seconds(), 600);
  EXPECT_EQ(spec.priority(), -5);
  EXPECT_EQ(spec.labels().at("b"), "x=y");
  EXPECT_TRUE(spec.resume());
  EXPECT_EQ(spec.device(), "cpu:0");
}

TEST(Request, WhatIsSaidOfAKernelOfOnesOwnIsNotSaidOfThoseBesideIt) {
  FakeService service;
  Assay(service, {"bench", "gemm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "fp32",
                  "--kernel", "user/0123456789ab", "--provider", "builtin", "--operand-roundoff",
                  "1e-8", "--flushes-subnormals"});
  const v1::JobSpec spec = service.created().at(0).spec();
  const auto& cases = spec.cases().cases();
  ASSERT_EQ(cases.size(), 2);
  EXPECT_EQ(cases[0].operand_roundoff(), 1e-8);
  EXPECT_TRUE(cases[0].flushes_subnormals());
  EXPECT_FALSE(cases[1].has_operand_roundoff());
  EXPECT_FALSE(cases[1].flushes_subnormals());
  Assay(service, {"run", "copy", "--count", "8", "--dtype", "fp32", "--flushes-subnormals"});
  EXPECT_TRUE(service.created().at(1).spec().cases().cases(0).flushes_subnormals())
      << "the daemon says why it does not take it";
}

// The daemon's reproducing lines of benchmarks begin with `assay bench`.
TEST(Request, BenchIsARunInBenchmarkMode) {
  FakeService service;
  ASSERT_EQ(Assay(service, {"bench", "copy", "--count", "64", "--dtype", "fp32"}).code, 0);
  EXPECT_EQ(service.created().at(0).spec().mode(), v1::MODE_BENCHMARK);
  ASSERT_EQ(Assay(service, {"bench", "copy", "--count", "64", "--mode", "both"}).code, 0);
  EXPECT_EQ(service.created().at(1).spec().mode(), v1::MODE_BOTH);
}

TEST(Request, SuitesTakeFilters) {
  FakeService service;
  ASSERT_EQ(Assay(service, {"run", "--suite", "nightly", "--op", "gemm,layer-norm", "--provider",
                            "onednn,openblas", "--dtype", "bf16", "--name", "1024"})
                .code,
            0);
  const v1::JobSpec spec = service.created().at(0).spec();
  EXPECT_EQ(spec.suite(), "nightly");
  EXPECT_THAT(spec.filter().ops(), ElementsAre("gemm", "layer_norm"));
  EXPECT_THAT(spec.filter().providers(), ElementsAre("onednn", "openblas"));
  EXPECT_THAT(spec.filter().dtypes(), ElementsAre(v1::DTYPE_BF16));
  EXPECT_EQ(spec.filter().name(), "1024");
  EXPECT_EQ(Assay(service, {"run", "--suite", "nightly", "--atol", "1"}).code, 2);
}

TEST(Request, ASuiteFileIsSentAsText) {
  const std::string path = ::testing::TempDir() + "/mine.toml";
  std::ofstream(path) << "title = \"mine\"\n";
  FakeService service;
  ASSERT_EQ(Assay(service, {"run", "--suite-file", path}).code, 0);
  EXPECT_EQ(service.created().at(0).spec().suite_text(), "title = \"mine\"\n");
  EXPECT_EQ(service.created().at(0).spec().suite_file(), path);
  EXPECT_EQ(Assay(service, {"run", "--suite-file", path + ".not"}).code, 2);
  EXPECT_EQ(Assay(service, {"run", "--suite-file", "/"}).err,
            "assay: suite-file: cannot read /: Is a directory\n");
  service.create_status = BadRequest({{"spec.suite_text", path + ":6:1: unknown key \"dtyp\""},
                                      {"spec.device", "no device \"cpu:9\""}});
  EXPECT_EQ(
      Assay(service, {"run", "--suite-file", path}).err,
      "assay: " + path + ":6:1: unknown key \"dtyp\"\n" + "assay: device: no device \"cpu:9\"\n");
}

TEST(Output, AnEndingThatNamesNoFormatIsRefused) {
  FakeService service;
  const Output output = Assay(service, {"report", "4f2k", "--output", "rep.pdf"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.err, HasSubstr("output: the ending \".pdf\" names no format"));
  EXPECT_THAT(output.err, HasSubstr(".xml (junit)"));
}

TEST(Jobs, ThatThereAreMoreIsSaid) {
  FakeService service;
  EXPECT_EQ(Assay(service, {"jobs"}).err, "");
  service.more_pages = true;
  EXPECT_EQ(Assay(service, {"jobs", "--limit", "1"}).err,
            "assay: there are more than the newest 1 (--limit, --filter)\n");
}

TEST(Jobs, ALimitIsAWholeNumber) {
  FakeService service;
  for (const std::string word : {"0", "x", "-3", "1.5"}) {
    const Output output = Assay(service, {"jobs", "--limit", word});
    EXPECT_EQ(output.code, 2);
    EXPECT_EQ(output.err,
              "assay: limit: must be a whole number of at least 1, got \"" + word + "\"\n");
  }
  EXPECT_EQ(Assay(service, {"jobs", "--limit", "5000000000"}).code, 0);
}

TEST(Request, ASweepIsEveryCombination) {
  FakeService service;
  ASSERT_EQ(RunGemm(service, {"--dtype", "fp16", "--trans-a", "false,true", "--seed", "1,2"}).code,
            0);
  const v1::CaseList cases = service.created().at(0).spec().cases();
  ASSERT_EQ(cases.cases_size(), 8);  // 2 types, 2 orientations, 2 seeds
  EXPECT_FALSE(cases.cases(0).gemm().trans_a());
  EXPECT_TRUE(cases.cases(7).gemm().trans_a());
  EXPECT_EQ(cases.cases(7).seed(), 2U);
}

TEST(Resume, ADroppedStreamIsTakenUpAfterItsLastEvent) {
  FakeService service;
  for (int i = 0; i < 5; ++i) service.results.push_back(MakeResult(i, v1::VERDICT_PASSED));
  service.drop_after = 3;
  const Output output = RunGemm(service, {"--format", "jsonl"});
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(service.watched_after(), ElementsAre(0, 3));
  // Every result once.
  EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 5);
  EXPECT_THAT(output.err, HasSubstr("lost assayd at"));
}

TEST(Resume, GivesUpWhenTheTimeIsOver) {
  FakeService service;
  service.always_drop = true;
  const Output output = RunGemm(service, {"--reconnect", "300ms"});
  EXPECT_EQ(output.code, 3);
  EXPECT_GT(service.watched_after().size(), 1U);
}

TEST(Resume, ACreateWhoseAnswerIsLostIsSentAgainWithTheSameId) {
  FakeService service;
  service.lose_creates = 1;
  EXPECT_EQ(RunGemm(service).code, 0);
  EXPECT_EQ(service.created().size(), 2U);
  EXPECT_EQ(service.jobs_made(), 1);
}

// The stream hangs after its results; Ctrl-C comes once they are there.
TEST(Interrupt, TheFirstLeavesAndSaysHowToComeBack) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  service.hang = true;
  std::thread user([&service] {
    while (service.watched_after().empty()) std::this_thread::yield();
    std::raise(SIGTERM);  // as a Ctrl-C whose second never comes, without the wait for it
  });
  const Output output = RunGemm(service);
  user.join();
  EXPECT_EQ(output.code, 4);
  EXPECT_TRUE(service.cancelled().empty());
  EXPECT_THAT(output.err, HasSubstr("come back with `assay watch jobs/4f2k`"));
}

TEST(Interrupt, TheSecondCancels) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  service.hang = true;
  std::thread user([&service] {
    while (service.watched_after().empty()) std::this_thread::yield();
    std::raise(SIGINT);
    std::raise(SIGINT);
  });
  const Output output = RunGemm(service);
  user.join();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(service.cancelled(), ElementsAre("jobs/4f2k"));
  EXPECT_THAT(output.err, HasSubstr("assay: cancelled jobs/4f2k"));
}

TEST(Submit, PrintsTheJobAndDoesNotWatch) {
  FakeService service;
  const Output output = Assay(service, {"submit", "gemm", "--m", "4"});
  EXPECT_EQ(output.code, 0);
  EXPECT_EQ(output.out, "jobs/4f2k\n");
  EXPECT_TRUE(service.watched_after().empty());
}

TEST(Targets, SeveralDaemonsAreAskedAndTheWorstCounts) {
  FakeService good, bad;
  good.results = {MakeResult(0, v1::VERDICT_PASSED)};
  bad.results = {MakeResult(0, v1::VERDICT_FAILED)};
  bad.verdict = v1::VERDICT_FAILED;
  const Output output = Assay({"run", "gemm", "--m", "4", "--format", "json", "--target",
                               good.target() + "," + bad.target()});
  EXPECT_EQ(output.code, 1);
  const auto report = nlohmann::json::parse(output.out);
  EXPECT_EQ(report["passed"], 1);
  EXPECT_EQ(report["failed"], 1);
}

TEST(Listings, DevicesKernelsSuitesAndJobsAsTableAndJson) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  EXPECT_THAT(Assay(service, {"devices"}).out, HasSubstr("no driver"));
  EXPECT_THAT(Assay(service, {"kernels"}).out, Not(HasSubstr("planted")));
  EXPECT_THAT(Assay(service, {"kernels", "--planted"}).out, HasSubstr("no: needs AVX-512"));
  EXPECT_THAT(Assay(service, {"suites"}).out, HasSubstr("what runs at night"));
  EXPECT_EQ(Assay(service, {"suites", "show", "nightly"}).out, "title = \"what runs at night\"\n");
  EXPECT_EQ(Assay(service, {"suites", "show", "3"}).out, "title = \"what runs at night\"\n");
  EXPECT_THAT(Assay(service, {"suites", "show", "nigthly"}).err,
              HasSubstr("did you mean \"nightly\"?"));
  EXPECT_THAT(Assay(service, {"jobs"}).out, HasSubstr("jobs/4f2k  finished  PASSED   0/1"));
  EXPECT_THAT(Assay(service, {"version"}).out, HasSubstr("assayd 0.1.0"));
  const Output alone = Assay({"version", "--target", "127.0.0.1:1"});
  EXPECT_EQ(alone.code, 3) << "no daemon answered";
  EXPECT_THAT(alone.out, StartsWith("assay "));
  for (const char* key : {"devices", "kernels", "suites", "jobs"}) {
    const auto json = nlohmann::json::parse(Assay(service, {key, "--format", "json"}).out);
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_FALSE(json[key].empty()) << key;
  }
  const auto job =
      nlohmann::json::parse(Assay(service, {"jobs", "--format", "json"}).out)["jobs"][0];
  EXPECT_EQ(job["name"], "jobs/4f2k");
  EXPECT_EQ(job["state"], "FINISHED");
  EXPECT_EQ(job["verdict"], "PASSED");
  EXPECT_EQ(job["create_time"], "2023-11-14T22:13:20.000000Z");
  const auto device =
      nlohmann::json::parse(Assay(service, {"devices", "--format", "json"}).out)["devices"][0];
  EXPECT_EQ(device["memory_bytes"], std::int64_t{24} << 30);
  EXPECT_EQ(device["state"], "READY");
  EXPECT_EQ(device["ceilings"][0]["dtype"], "bf16");
  EXPECT_FALSE(device["ceilings"][0].contains("bytes_per_second"));
}

// Why a device cannot be used ran on behind the terminal's edge.
TEST(Listings, ARemarkKeepsWithinTheTerminal) {
  FakeService service;
  v1::Device& hip = service.more_devices.emplace_back();
  hip.set_id("hip");
  hip.set_backend("hip");
  hip.set_state(v1::DEVICE_STATE_UNAVAILABLE);
  hip.set_unavailable_reason(
      "hipErrorNoDevice: there is none of any kind in this machine, as far as its driver tells; "
      "the library is for gfx90a, gfx942");
  const Output wide = Assay(service, {"devices"}, /*live=*/true);
  const std::vector<std::string> lines = absl::StrSplit(wide.out, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), 120u) << line;
  EXPECT_GT(lines.size(), 4u);
  EXPECT_THAT(lines.back(), ContainsRegex("^ {20,}.*gfx942$")) << "under its column";
  EXPECT_THAT(Assay(service, {"devices"}).out, HasSubstr(hip.unavailable_reason()))
      << "a pipe has a line a device";
}

TEST(Listings, WhatIsNotKnownIsNotZero) {
  FakeService service;
  const auto device =
      nlohmann::json::parse(Assay(service, {"devices", "--format", "json"}).out)["devices"][1];
  EXPECT_EQ(device["state"], "UNAVAILABLE");
  for (const char* key : {"memory_bytes", "arena_bytes", "leased_bytes", "compute_units",
                          "queue_depth", "worker_restarts"}) {
    EXPECT_FALSE(device.contains(key)) << key;
  }
  EXPECT_THAT(Assay(service, {"devices"}).out, ContainsRegex("unavailable +– +– +– +– +no driver"));
  const auto suite =
      nlohmann::json::parse(Assay(service, {"suites", "--format", "json"}).out)["suites"][1];
  EXPECT_EQ(suite["name"], "broken");
  EXPECT_FALSE(suite.contains("case_count"));
  EXPECT_THAT(Assay(service, {"suites"}).out, ContainsRegex("broken +– +cannot be read"));
}

TEST(Devices, ReleaseTakesTheShortName) {
  FakeService service;
  EXPECT_EQ(Assay(service, {"devices", "release", "cpu:0"}).code, 0);
  EXPECT_THAT(Assay(service, {"devices", "release", "cpu:0", "--keep-quarantine"}).out,
              HasSubstr("quarantined"));
  EXPECT_EQ(Assay(service, {"devices", "release", "cpu:9"}).code, 2);
}

TEST(Show, AJobAndACase) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_FAILED)};
  const std::string all = Assay(service, {"show", "4f2k"}).out;
  EXPECT_THAT(all, HasSubstr("1 passed, 1 failed in 6.2 s"));
  EXPECT_THAT(all, HasSubstr("# CASE"));
  EXPECT_THAT(all, HasSubstr(" 0 " + service.results[0].name()));
  EXPECT_THAT(all, HasSubstr(" 1 " + service.results[1].name())) << "as explain takes it";
  EXPECT_THAT(Assay(service, {"report", "4f2k"}).out, Not(HasSubstr("# CASE")));
  EXPECT_THAT(Assay(service, {"show", "4f2k", "1"}).out, HasSubstr("rho_proven"));
  const auto json =
      nlohmann::json::parse(Assay(service, {"show", "4f2k", "#1", "--format", "json"}).out);
  EXPECT_EQ(json["verdict"], "FAILED");
  EXPECT_EQ(Assay(service, {"show", "4f2k", "9"}).code, 2);
}

TEST(Cancel, EndsTheJob) {
  FakeService service;
  EXPECT_EQ(Assay(service, {"cancel", "4f2k"}).code, 0);
  EXPECT_THAT(service.cancelled(), ElementsAre("jobs/4f2k"));
}

TEST(Output, AFileAppearsWholeAndOnlyForWhatRan) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const std::string path = ::testing::TempDir() + "/report.json";
  std::remove(path.c_str());
  service.create_status = {grpc::StatusCode::NOT_FOUND, "no device"};
  EXPECT_EQ(RunGemm(service, {"--output", path}).code, 2);
  EXPECT_FALSE(std::ifstream(path).good());
  service.create_status = grpc::Status::OK;
  EXPECT_EQ(RunGemm(service, {"--output", path}).code, 0);
  // The extension chose the format.
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(path))["schema"], "assay.report/v1");
  EXPECT_EQ(RunGemm(service, {"--output", "/nonexistent/x.json"}).code, 2);
}

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A path in a folder of the test's own with the content "from before".
std::string ReportFromBefore(const std::string& name) {
  struct Folder {
    Folder() {
      if (mkdtemp(path.data()) == nullptr) std::abort();
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string path = ::testing::TempDir() + "/assay-output-XXXXXX";
  };
  static const Folder folder;
  const std::string path = folder.path + "/" + name;
  std::filesystem::remove(path);  // which may be a pipe that nobody reads
  std::ofstream(path) << "from before";
  return path;
}

TEST(Output, ADeviceStaysOneAndALinkToo) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const std::string pipe = ReportFromBefore("pipe");
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = Content(pipe); });
  EXPECT_EQ(RunGemm(service, {"--format", "jsonl", "--output", pipe}).code, 0);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  reader.join();
  EXPECT_THAT(read, HasSubstr("\"verdict\":\"PASSED\""));
  // A link to a file that is there, and one to a file that is not yet.
  const std::string target = ReportFromBefore("target.json");
  const std::string link = ReportFromBefore("link.json");
  for (int i = 0; i < 2; ++i) {
    std::remove(link.c_str());
    std::filesystem::create_symlink("target.json", link);
    EXPECT_EQ(RunGemm(service, {"--output", link}).code, 0);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_THAT(Content(target), HasSubstr("assay.report/v1"));
    std::remove(target.c_str());
  }
}

TEST(Output, LeavingKeepsTheReportFromBefore) {
  for (const char* name : {"r.json", "r.xml", "r.html"}) {
    FakeService service;
    service.results = {MakeResult(0, v1::VERDICT_PASSED)};
    service.hang = true;
    const std::string path = ReportFromBefore(name);
    std::thread user([&service] {
      while (service.watched_after().empty()) std::this_thread::yield();
      std::raise(SIGTERM);
    });
    EXPECT_EQ(RunGemm(service, {"--output", path}).code, 4);
    user.join();
    EXPECT_EQ(Content(path), "from before") << name;
  }
}

TEST(Output, WhatWasSeenIsWrittenThoughTheDaemonDied) {
  for (const char* name : {"d.json", "d.jsonl", "d.csv"}) {
    FakeService service;
    service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
    service.die_after = 2;  // the start and one result
    const std::string path = ReportFromBefore(name);
    EXPECT_EQ(RunGemm(service, {"--output", path, "--reconnect", "0s"}).code, 3);
    EXPECT_THAT(Content(path), HasSubstr("onednn #0")) << name;
    // Nothing was seen: nothing is put in its place.
    service.always_drop = true;
    const std::string kept = ReportFromBefore(name);
    EXPECT_EQ(RunGemm(service, {"--output", kept, "--reconnect", "0s"}).code, 3);
    EXPECT_EQ(Content(kept), "from before") << name;
  }
}

TEST(Output, OneOfSeveralTargetsMayBeDown) {
  FakeService up, down;
  up.results = {MakeResult(0, v1::VERDICT_PASSED)};
  down.create_status = {grpc::StatusCode::UNAVAILABLE, "draining"};
  const std::string path = ReportFromBefore("targets.json");
  EXPECT_EQ(Assay({"run", "gemm", "--m", "4", "--output", path, "--target",
                   up.target() + "," + down.target()})
                .code,
            3);
  EXPECT_EQ(nlohmann::json::parse(Content(path))["passed"], 1);
}

TEST(Output, ABaselineThatIsReadIsNotReplaced) {
  const std::string file = ReportFromBefore("baseline.json");
  const std::vector<std::vector<std::string>> lines = {
      {"baseline", "compare", file, "jobs/4f2k"},
      {"baseline", "compare", "jobs/4f2k", file},
      {"baseline", "show", file},
      {"bench", "gemm", "--m", "4", "--compare", file},
      {"qualify", "quick", "--baseline", file}};
  for (std::vector<std::string> line : lines) {
    line.insert(line.end(), {"--output", file, "--target", "127.0.0.1:1"});
    const Output output = Assay(line);
    EXPECT_EQ(output.code, 2) << line[1];
    EXPECT_EQ(output.err, "assay: output: this command reads " + file + "; name another file\n");
  }
  EXPECT_EQ(Content(file), "from before");
}

}  // namespace
}  // namespace assay::client::testing
