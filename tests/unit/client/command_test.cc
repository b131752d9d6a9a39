// Commands against a fake daemon: exit codes, what is asked, what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "absl/strings/str_split.h"
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
                  "1e-8", "--flushes-subnormals", "--cuts-off-sums"});
  const v1::JobSpec spec = service.created().at(0).spec();
  const auto& cases = spec.cases().cases();
  ASSERT_EQ(cases.size(), 2);
  EXPECT_EQ(cases[0].operand_roundoff(), 1e-8);
  EXPECT_TRUE(cases[0].flushes_subnormals());
  EXPECT_TRUE(cases[0].cuts_off_sums());
  EXPECT_FALSE(cases[1].has_operand_roundoff());
  EXPECT_FALSE(cases[1].flushes_subnormals());
  EXPECT_FALSE(cases[1].cuts_off_sums());
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
  const std::string targets = ::testing::TempDir() + "/my targets.toml";
  std::ofstream(targets) << "";
  const Output output = RunGemm(service, {"--targets-file", targets});
  user.join();
  EXPECT_EQ(output.code, 4);
  EXPECT_TRUE(service.cancelled().empty());
  EXPECT_THAT(output.err,
              HasSubstr("come back with `assay watch jobs/4f2k --target " + service.target() +
                        " --targets-file '" + targets + "'`. Ctrl-C again cancels it."));
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
  hip.set_queue_depth(1);
  EXPECT_THAT(Assay(service, {"devices"}).out, HasSubstr("; 1 case to do"));
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

}  // namespace
}  // namespace assay::client::testing
