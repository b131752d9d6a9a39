// Reports as files: what is read of them, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "client/fleet/json_scanner.h"
#include "client/fleet/reader.h"
#include "client/report/json.h"
#include "tests/unit/client/fake_service.h"

namespace assay::client::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Document(const std::string& tests) {
  return R"({"schema": "assay.report/v1", "target": "a:1", "device": "cpu:0", "tests": [)" + tests +
         "]}";
}

std::string Refusal(const std::string& text) {
  const auto report = ReadReport(text, "x.json");
  return report.ok() ? "" : std::string(report.status().message());
}

TEST(Reader, ReadsWhatTheReportWrites) {
  client::Run run;
  run.target = "a07:7575";
  run.job.set_name("jobs/4f2k");
  run.job.set_suite("nightly");
  v1::CaseFilter& filter = *run.job.mutable_spec()->mutable_filter();
  for (const v1::DType dtype : {v1::DTYPE_FP32, v1::DTYPE_BF16}) filter.add_dtypes(dtype);
  filter.add_ops("gemm");
  (*run.job.mutable_environment())["host"] = "a07";
  (*run.job.mutable_environment())["model"] = "A \"card\"";
  run.server.set_host("a07");
  run.server.set_address("0.0.0.0:7575");
  run.server.mutable_start_time()->set_seconds(1'763'750'000);
  v1::Device& card = run.devices.emplace_back();
  card.set_id("cuda:0");
  (*card.mutable_properties())["uuid"] = "GPU-1";
  v1::Device& host = run.devices.emplace_back();
  host.set_id("cpu:0");
  host.set_backend("cpu");
  host.set_model("EPYC");
  host.set_compute_units(2);
  run.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_FAILED)};
  auto* probe = run.results[0].add_probes();
  probe->set_name("exact-sparse");
  probe->set_digest("0123456789abcdef0123456789abcdef");
  probe->set_golden(true);
  run.results[0].mutable_precision()->set_bits(23.5);
  run.results[0].mutable_precision()->set_rms(1.4);
  run.results[1].mutable_precision()->set_declared_bits(24);
  const auto rows = ReadReport(Indented(ReportJson({absl::Now(), {run}})), "x.json");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->host, "a07");
  EXPECT_EQ(rows->model, "A \"card\"");
  EXPECT_EQ(rows->job, "jobs/4f2k");
  EXPECT_EQ(rows->filter, "--op gemm --dtype bf16,fp32");
  ASSERT_TRUE(rows->daemons.contains("a07:7575"));
  const ReportRows::Daemon& daemon = rows->daemons.at("a07:7575");
  EXPECT_EQ(daemon.host, "a07");
  EXPECT_THAT(daemon.instance, ::testing::EndsWith(" 0.0.0.0:7575"));
  EXPECT_EQ(daemon.uuids.at("cuda:0"), "GPU-1");
  EXPECT_EQ(daemon.models.at("cpu:0"), "EPYC (2 cores)");
  ASSERT_EQ(rows->tests.size(), 2u);
  const ReportRows::Test& test = rows->tests[0];
  EXPECT_EQ(test.op, "gemm");
  EXPECT_EQ(test.key, "gemm alpha=1.0 k=16 m=64 n=32 bf16 bf16 normal:1");
  EXPECT_EQ(test.seed, "7");
  ASSERT_EQ(test.probes.size(), 1u);
  EXPECT_EQ(test.probes[0].digest, "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(test.probes[0].golden, true);
  ASSERT_TRUE(test.times);
  EXPECT_DOUBLE_EQ(test.times->median, 2.53e-3);
  EXPECT_DOUBLE_EQ(*test.times->flops_per_second, 850e9);
  ASSERT_TRUE(test.exactness);
  EXPECT_EQ(test.exactness->rms, 1.4);
  EXPECT_EQ(test.exactness->bits, 23.5);
  EXPECT_FALSE(rows->tests[1].exactness) << "it has no rms";
  EXPECT_EQ(rows->tests[1].verdict, "FAILED");
  EXPECT_EQ(rows->tests[1].reason, "bound");
}

// Another program on the card makes its kernels slow, and a validation waits for nothing to settle.
TEST(Reader, ATimeBesideOthersIsNoisyAndOneTakenInPassingIsNone) {
  client::Run run;
  for (int i = 0; i < 4; ++i) {
    v1::CaseResult& result = run.results.emplace_back(MakeResult(i, v1::VERDICT_PASSED));
    result.mutable_spec()->set_mode(v1::MODE_BOTH);
    result.mutable_bench()->set_median_seconds(1e-3);
    result.mutable_bench()->set_samples(50);
  }
  run.results[1].mutable_bench()->mutable_conditions()->set_others_bytes(std::int64_t{1} << 30);
  run.results[2].mutable_bench()->mutable_conditions()->set_others_bytes(0);
  run.results[3].mutable_spec()->set_mode(v1::MODE_VALIDATE);
  run.results[3].mutable_bench()->set_samples(9);
  const auto rows = ReadReport(Indented(ReportJson({absl::Now(), {run}})), "x.json");
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (const std::size_t timed : {0, 1, 2}) {
    ASSERT_TRUE(rows->tests[timed].times) << timed;
    EXPECT_EQ(rows->tests[timed].times->noisy, timed == 1) << timed;
  }
  EXPECT_FALSE(rows->tests[3].times);
}

TEST(Reader, WhatIsNotSaidIsTheSameCaseAsWhatIsFalse) {
  const auto plain = ReadReport(
      Document(R"({"op": "gemm", "verdict": "PASSED", "shape": {"m": 4, "k": 2}})"), "x");
  const auto wordy = ReadReport(
      Document(
          R"({"op": "gemm", "verdict": "PASSED", "shape": {"k": 2, "m": 4, "bias": false, "lda": 0, "pads": [ ]}})"),
      "x");
  EXPECT_EQ(plain->tests[0].key, wordy->tests[0].key);
  const auto other = ReadReport(
      Document(R"({"op": "gemm", "verdict": "PASSED", "shape": {"k": 2, "m": 4, "bias": true}})"),
      "x");
  EXPECT_NE(plain->tests[0].key, other->tests[0].key);
}

// The default of these fields is another value: with a 0 another result is right, in another time.
TEST(Reader, AZeroThatIsAValueIsAnotherCase) {
  const auto key = [](const std::string& op, const std::string& shape) {
    const auto rows = ReadReport(Document(R"({"shape": {"cols": 4)" + shape + R"(}, "op": ")" + op +
                                          R"(", "verdict": "PASSED"})"),
                                 "x");
    return rows.ok() ? rows->tests[0].key : std::string(rows.status().message());
  };
  EXPECT_NE(key("reduce", R"(, "axis": 0)"), key("reduce", ""));
  EXPECT_NE(key("gemm", R"(, "alpha": 0.0)"), key("gemm", ""));
  EXPECT_NE(key("layer_norm", R"(, "eps": 0.0)"), key("layer_norm", ""));
  EXPECT_EQ(key("attention", R"(, "mask_density": 0.0)"), key("attention", ""));
  EXPECT_EQ(key("rope", R"(, "start": 0)"), key("rope", ""));
  EXPECT_EQ(key("of another version", R"(, "axis": 0)"), key("of another version", ""));
}

TEST(Reader, NamesOfAFileAreFitForATerminal) {
  const auto report = ReadReport(Document("{\"name\": \"a\x1b[2J\", \"op\": \"gemm\", "
                                          "\"provider\": \"\\u001b\\u202ex\", \"verdict\": "
                                          "\"PASSED\"}"),
                                 "x.json");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->tests.size(), 1U);
  EXPECT_EQ(report->tests[0].name, "a?[2J");
  EXPECT_EQ(report->tests[0].provider, "??x");
}

TEST(Reader, RefusesWhatItCannotRead) {
  EXPECT_THAT(Refusal(""), HasSubstr("x.json: is no report: not a JSON object"));
  EXPECT_THAT(Refusal("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("it has none"));
  EXPECT_THAT(Refusal(R"({"schema": "assay.baseline/v1"})"),
              HasSubstr("got \"assay.baseline/v1\""));
  EXPECT_THAT(Refusal(R"({"schema": "assay.report/v2", "tests": {"new": "form"}})"),
              HasSubstr("has the schema \"assay.report/v2\", which this assay does not know"));
  EXPECT_THAT(Refusal(R"({"schema": "assay.report/v1"})"), HasSubstr("tests: must be a list"));
  const std::string whole = Document(
      R"({"name": "a \" b", "verdict": "PASSED", "shape": {"m": [1, 2]}, "x": [{"y": null}]})");
  EXPECT_EQ(Refusal(whole), "");
  for (std::size_t n = 1; n < whole.size(); ++n) EXPECT_NE(Refusal(whole.substr(0, n)), "") << n;
  EXPECT_THAT(Refusal(whole + "}"), HasSubstr("is no JSON"));
  EXPECT_THAT(Refusal(R"({"schema": "assay.report/v1", "tests": [], "x": [1, 2}})"),
              HasSubstr("is no JSON"));
}

std::string WithDigest(const std::string& digest) {
  return Document(R"({"verdict": "PASSED"}, {"verdict": "PASSED", "probes": [{"name": "a"}, )"
                  R"({"name": "exact-sparse", "digest": )" +
                  digest + "}]}");
}

// Passed over, each would leave its device without a digest, and so without an accuser.
TEST(Reader, RefusesADigestThatIsNone) {
  const std::string field =
      "x.json: tests[1].probes[1].digest: must be 32 hexadecimal digits, got ";
  EXPECT_EQ(Refusal(WithDigest('"' + std::string(31, 'a') + '"')),
            field + '"' + std::string(31, 'a') + '"');
  EXPECT_EQ(Refusal(WithDigest(R"("zz not hex")")), field + R"("zz not hex")");
  EXPECT_EQ(Refusal(WithDigest("17")), field + "17");
  EXPECT_EQ(Refusal(WithDigest("null")), field + "null");
  EXPECT_EQ(Refusal(WithDigest("\"\"")), "") << "an identity has none";
  EXPECT_EQ(Refusal(WithDigest('"' + std::string(32, 'A') + '"')), "");
  EXPECT_EQ(Refusal(Document(R"({"verdict": "PASSED", "probes": 3})")),
            "x.json: tests[0].probes: must be a list, got 3");
  EXPECT_EQ(Refusal(Document(R"({"verdict": "PASSED", "op": "copy", "digest": "abc"})")),
            "x.json: tests[0].digest: must be 32 hexadecimal digits, got \"abc\"");
}

TEST(Reader, RefusesWordsItDoesNotKnow) {
  EXPECT_EQ(Refusal(Document(R"({"verdict": "FAILD"})")),
            "x.json: tests[0].verdict: must be one of PASSED, FAILED, INCONCLUSIVE, UNSUPPORTED, "
            "ERROR, SKIPPED, got \"FAILD\"");
  EXPECT_THAT(Refusal(Document(R"({"name": "n"})")), HasSubstr("SKIPPED, got \"\""));
  EXPECT_EQ(Refusal(R"({"schema": "assay.report/v1", "state": "DONE", "tests": []})"),
            "x.json: state: must be one of QUEUED, RUNNING, FINISHED, CANCELLED, INTERRUPTED, got "
            "\"DONE\"");
}

TEST(Reader, RefusesATotalThatIsNoCount) {
  const auto with = [](const std::string& total) {
    return R"({"schema": "assay.report/v1", "total": )" + total + R"(, "tests": []})";
  };
  EXPECT_EQ(Refusal(with("17")), "");
  for (const char* total : {"-1", "1.5", "\"17\"", "null"}) {
    EXPECT_EQ(Refusal(with(total)),
              std::string("x.json: total: must be a whole number from 0, got ") + total);
  }
}

TEST(Reader, FilesThatCannotBeReadAreNamedAndTheOthersStay) {
  const std::string folder = std::filesystem::temp_directory_path() / "assay_fleet_reader_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/good.json")
      << Document(R"({"name": "n", "op": "gemm", "verdict": "PASSED"})");
  std::ofstream(folder + "/bad.json") << "{";
  Fleet fleet;
  const auto unread = ReadReports(
      {folder + "/none.json", folder + "/bad.json", folder + "/good.json", folder}, fleet);
  EXPECT_THAT(unread, ElementsAre(HasSubstr("none.json: cannot be read"),
                                  HasSubstr("bad.json: is cut off"), HasSubstr("cannot be read")));
  EXPECT_EQ(fleet.results, 1);
  std::filesystem::remove_all(folder);
}

TEST(Scanner, TakesSomeAndPassesOverTheRest) {
  JsonScanner scan(
      R"( {"a": [1, {"b": "]}\\\""}], "n": -1.5e3, "t": "x\u00e9\n", "s": "Infinity", "f": true} )");
  std::optional<double> number, word;
  std::string text;
  scan.Object([&](std::string_view name) {
    if (name == "n") number = scan.Number();
    if (name == "t") text = scan.Text();
    if (name == "s") word = scan.Number();
  });
  EXPECT_TRUE(scan.ok());
  EXPECT_TRUE(scan.AtEnd());
  EXPECT_EQ(number, -1500.0);
  EXPECT_EQ(text, "x\xc3\xa9\n");
  EXPECT_EQ(word, std::nullopt);
}

}  // namespace
}  // namespace assay::client::testing
