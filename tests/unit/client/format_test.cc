// Every format holds its contract with the programs and people that read it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "absl/strings/str_split.h"
#include "client/lib/text.h"
#include "client/report/csv.h"
#include "client/report/document.h"
#include "client/report/profile.h"
#include "client/report/row.h"
#include "client/report/units.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Text, WhatATerminalObeysIsNotShown) {
  for (const char* plain :
       {"", "gemm 64x64", "0–5 µs ± 3 %", "日本語", "\u2065\u202f\u200d", "a\xe2\x80", "\xff"}) {
    EXPECT_EQ(Visible(plain), plain);
  }
  EXPECT_EQ(Visible("\x1b[2Jgone\r\n\x7f"), "?[2Jgone???");
  EXPECT_EQ(Visible("a\u0085b\u009bc"), "a?b?c");
  EXPECT_EQ(Visible("\u061c\u200e\u202e\u2066\u2069"), "?????");
  EXPECT_EQ(VisibleLines("a\x1b\tb\r\n\rc\n"), "a?\tb\r\n?c\n") << "lines stay lines";
  EXPECT_EQ(VisibleLines(""), "");
}

// A job with one result of each verdict, and a required kernel that is missing.
struct Everything : FakeService {
  Everything() {
    for (const v1::Verdict each :
         {v1::VERDICT_PASSED, v1::VERDICT_FAILED, v1::VERDICT_INCONCLUSIVE, v1::VERDICT_UNSUPPORTED,
          v1::VERDICT_ERROR, v1::VERDICT_SKIPPED}) {
      results.push_back(MakeResult(static_cast<int>(results.size()), each));
    }
    verdict = v1::VERDICT_FAILED;
    v1::Finding missing;
    missing.set_reason("unsupported");
    missing.set_message("required: gemm onednn bf16 on cpu");
    job_findings = {missing};
  }
};

// A pass that rests on less than others do says so where people and programs look.
TEST(Probes, ThatWereRefusedAreSaid) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
  for (const char* name : {"exact-sparse", "exact-integers"}) {
    v1::ProbeResult& probe = *service.results[1].add_probes();
    probe.set_name(name);
    probe.set_verdict(v1::VERDICT_SKIPPED);
    probe.set_message("takes no exact data");
    probe.set_refused(true);
  }
  v1::ProbeResult& by_nature = *service.results[0].add_probes();
  by_nature.set_name("exact-integers");
  by_nature.set_verdict(v1::VERDICT_SKIPPED);
  by_nature.set_message("no format for it");
  const Output table = RunGemm(service);
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("without probes: exact-sparse, exact-integers\n"));
  EXPECT_THAT(table.out, HasSubstr("  probes  refused in 1 of 2 passed cases, which rest on their "
                                   "error bounds; first: gemm 64x32x16 bf16 onednn #1: "
                                   "exact-sparse: takes no exact data\n"));
  const json report = json::parse(RunGemm(service, {"--format", "json"}).out);
  EXPECT_FALSE(report["tests"][0].contains("probes_refused"));
  EXPECT_EQ(report["tests"][1]["probes_refused"], "exact-sparse, exact-integers");
  EXPECT_EQ(report["tests"][1]["probes"][0]["refused"], true);
}

TEST(Json, HasEveryNameOfTheContract) {
  Everything service;
  service.results[0].set_deterministic(true);
  service.results[0].mutable_stats()->set_max_ulp(1);
  service.results[0].mutable_bench()->set_noise(0.01);
  service.results[0].mutable_spec()->set_atol(0);
  service.results[0].mutable_spec()->set_rtol(0.5);
  const Output output = RunGemm(service, {"--format", "json"});
  EXPECT_EQ(output.code, 1);
  const json report = json::parse(output.out);
  for (const char* name : {"schema", "generated_at", "target", "job", "suite", "seed", "device",
                           "gpu", "backend", "versions", "total", "passed", "failed",
                           "inconclusive", "unsupported", "errors", "skipped", "tests"}) {
    EXPECT_TRUE(report.contains(name)) << name;
  }
  EXPECT_EQ(report["schema"], "assay.report/v1");
  EXPECT_EQ(report["job"], "jobs/4f2k");
  EXPECT_EQ(report["target"], service.target());
  EXPECT_EQ(report["device"], "cpu:0");
  EXPECT_EQ(report["gpu"], "EPYC 9755");
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_EQ(report["versions"]["onednn"], "2.6.3");
  EXPECT_EQ(report["total"], 6);
  for (const char* count :
       {"passed", "failed", "inconclusive", "unsupported", "errors", "skipped"}) {
    EXPECT_EQ(report[count], 1) << count;
  }
  const json& passed = report["tests"][0];
  for (const char* name : {"name",
                           "op",
                           "provider",
                           "dtype",
                           "shape",
                           "pattern",
                           "seed",
                           "verdict",
                           "passed",
                           "reason",
                           "criterion",
                           "rho",
                           "rho_proven",
                           "max_abs_error",
                           "max_rel_error",
                           "mean_abs_error",
                           "rms_error",
                           "max_ulp",
                           "cosine",
                           "bias_z",
                           "count",
                           "mismatches",
                           "atol",
                           "rtol",
                           "nan",
                           "inf",
                           "nan_count",
                           "inf_count",
                           "unwritten",
                           "guard_hits",
                           "mismatch_samples",
                           "digest",
                           "deterministic",
                           "bench",
                           "duration_seconds",
                           "repro"}) {
    EXPECT_TRUE(passed.contains(name)) << name;
  }
  for (const char* name : {"median_seconds", "flops_per_second", "bytes_per_second", "efficiency",
                           "roof", "samples", "noise"}) {
    EXPECT_TRUE(passed["bench"].contains(name)) << name;
  }
  EXPECT_EQ(passed["op"], "gemm");
  EXPECT_EQ(passed["dtype"], "bf16");
  EXPECT_EQ(passed["shape"]["k"], 16);
  EXPECT_EQ(passed["passed"], true);
  EXPECT_EQ(passed["duration_seconds"], 0.0125);
  EXPECT_EQ(passed["atol"], 0.0);

  const json& failed = report["tests"][1];
  EXPECT_EQ(failed["verdict"], "FAILED");
  EXPECT_EQ(failed["passed"], false);
  EXPECT_EQ(failed["reason"], "bound");
  EXPECT_EQ(failed["mismatch_samples"].size(), 2U);
  EXPECT_EQ(failed["first_mismatch"]["index"], (std::vector<int>{0, 63}));
  EXPECT_EQ(failed["first_mismatch"]["actual_bits"], "0x3310");
  EXPECT_EQ(failed["first_mismatch"]["expected"], 0.03125);
}

TEST(Json, WhatWasNotMeasuredIsAbsent) {
  FakeService service;
  v1::CaseResult result = MakeResult(0, v1::VERDICT_PASSED);
  result.mutable_stats()->clear_rho();
  result.clear_bench();
  result.clear_digests();
  service.results = {result, MakeResult(1, v1::VERDICT_UNSUPPORTED)};
  const json report = json::parse(RunGemm(service, {"--format", "json"}).out);
  for (const char* name :
       {"rho", "max_ulp", "atol", "bench", "digest", "deterministic", "first_mismatch"}) {
    EXPECT_FALSE(report["tests"][0].contains(name)) << name;
  }
  for (const char* name : {"rho", "count", "nan_count", "mismatches", "mismatch_samples"}) {
    EXPECT_FALSE(report["tests"][1].contains(name)) << name;
  }
}

TEST(Json, NumbersThatAreNotFiniteAreStrings) {
  FakeService service;
  v1::CaseResult result = MakeResult(0, v1::VERDICT_FAILED);
  result.mutable_stats()->set_rho(std::numeric_limits<double>::infinity());
  result.mutable_stats()->set_cosine(std::nan(""));
  result.mutable_stats()->set_bias_z(-std::numeric_limits<double>::infinity());
  service.results = {result};
  const json test = json::parse(RunGemm(service, {"--format", "json"}).out)["tests"][0];
  EXPECT_EQ(test["rho"], "Infinity");
  EXPECT_EQ(test["cosine"], "NaN");
  EXPECT_EQ(test["bias_z"], "-Infinity");
  EXPECT_EQ(test["mismatch_samples"][1]["actual"], "NaN");
}

TEST(Jsonl, ALineAResult) {
  Everything service;
  std::istringstream lines(RunGemm(service, {"--format", "jsonl"}).out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(json::parse(line)["index"], count);
  }
  EXPECT_EQ(count, 6);
}

TEST(Csv, QuotesAsRfc4180Says) {
  EXPECT_EQ(CsvField("plain"), "plain");
  EXPECT_EQ(CsvField("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvField("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(CsvField("two\nlines"), "\"two\nlines\"");
}

TEST(Csv, EveryLineHasEveryColumn) {
  Everything service;
  const std::string text = RunGemm(service, {"--format", "csv"}).out;
  std::vector<int> fields = {1};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted) continue;
    if (text[i] == ',') ++fields.back();
    if (text[i] == '\n') {
      EXPECT_EQ(text[i - 1], '\r');
      fields.push_back(1);
    }
  }
  fields.pop_back();
  ASSERT_EQ(fields.size(), 7U);  // the header and six results
  for (int count : fields) EXPECT_EQ(count, fields[0]);
  EXPECT_THAT(text, HasSubstr("\"no bf16 \"\"here\"\", today\""));
}

TEST(Csv, AProfiledJobHasAColumnACounter) {
  std::ostringstream out, err;
  const auto sink = MakeCsvSink({out, err});
  client::Run run;
  run.job.mutable_spec()->set_profiler("perf");
  v1::CaseResult result;
  result.set_name("a");
  v1::BenchStats& bench = *result.mutable_bench();
  (*bench.mutable_profile())["cache-misses"] = 81234;
  bench.set_profile_note("counters cycles, instructions not supported");
  sink->OnResult(run, result);
  result.clear_bench();
  sink->OnResult(run, result);
  const std::vector<std::string> lines = absl::StrSplit(out.str(), "\r\n");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], EndsWith(",bench.profile.cycles,bench.profile.instructions,"
                                 "bench.profile.cache-references,bench.profile.cache-misses,"
                                 "bench.profile.branch-misses,bench.profile.task-clock,"
                                 "bench.profile_note"));
  EXPECT_THAT(lines[1], EndsWith(",,,,81234.0,,,\"counters cycles, instructions not supported\""));
  EXPECT_THAT(lines[2], EndsWith(",,,,,,,")) << "what was not counted is absent";
  EXPECT_EQ(CountersOf("ncu").size(), 11u);
  EXPECT_EQ(CountersOf("rocprof").size(), 3u);
}

// A reader of the subset of XML a report may use: tags must nest, attributes must
// be quoted and appear once. Returns what is wrong, or nothing.
std::string XmlFault(const std::string& text, std::map<std::string, int>* tags) {
  std::vector<std::string> open;
  for (std::size_t at = text.find("?>") + 2; at < text.size();) {
    if (text[at] == '&') {
      const std::string entity = text.substr(at, text.find(';', at) - at + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") {
        return "entity " + entity;
      }
    }
    if (text[at] != '<') {
      ++at;
      continue;
    }
    std::size_t end = at;
    bool quoted = false;
    while (end < text.size() && (quoted || text[end] != '>')) {
      if (text[end] == '"') quoted = !quoted;
      if (quoted && text[end] == '<') return "< in an attribute";
      ++end;
    }
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return "unexpected " + tag;
      open.pop_back();
    } else {
      ++(*tags)[name];
      if (tag.back() != '/') open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "open: " + open.back();
}

TEST(Junit, IsWellFormedAndNothingUnprovenIsGreen) {
  Everything service;
  const Output output = RunGemm(service, {"--format", "junit"});
  std::map<std::string, int> tags;
  EXPECT_EQ(XmlFault(output.out, &tags), "");
  EXPECT_EQ(tags["testcase"], 7);  // six results and the required kernel
  EXPECT_EQ(tags["failure"], 2);
  EXPECT_EQ(tags["error"], 2);  // ERROR and INCONCLUSIVE
  EXPECT_EQ(tags["skipped"], 2);
  EXPECT_THAT(output.out, HasSubstr("tests=\"7\" failures=\"2\" errors=\"2\" skipped=\"2\""));
}

TEST(Junit, AJobThatProvedNothingIsNoPass) {
  const auto junit = [](v1::JobState state, std::vector<v1::CaseResult> results,
                        const std::string& finding = "") {
    Report report;
    auto& run = report.runs.emplace_back();
    run.total = 10;
    run.job.set_state(state);
    if (!finding.empty()) run.job.add_findings()->set_reason(finding);
    run.results = std::move(results);
    std::ostringstream out;
    WriteJunit(report, out);
    std::map<std::string, int> tags;
    EXPECT_EQ(XmlFault(out.str(), &tags), "");
    return out.str();
  };
  const v1::CaseResult right = MakeResult(0, v1::VERDICT_PASSED);
  EXPECT_THAT(junit(v1::JOB_STATE_RUNNING, {right}),
              ::testing::AllOf(HasSubstr("tests=\"2\" failures=\"0\" errors=\"1\""),
                               HasSubstr("the job is running: 1 of 10 cases have a result")));
  EXPECT_THAT(junit(v1::JOB_STATE_CANCELLED, {right, MakeResult(1, v1::VERDICT_SKIPPED)}),
              HasSubstr("the job is cancelled: 1 of 10 cases have a result"));
  EXPECT_THAT(junit(v1::JOB_STATE_CANCELLED, {right}, "cancelled"),
              ::testing::AllOf(HasSubstr("tests=\"2\" failures=\"1\" errors=\"0\""),
                               ::testing::Not(HasSubstr("unproven"))))
      << "said once";
  EXPECT_THAT(junit(v1::JOB_STATE_FINISHED, {MakeResult(0, v1::VERDICT_UNSUPPORTED)}),
              HasSubstr("nothing ran that could pass"));
  EXPECT_THAT(junit(v1::JOB_STATE_FINISHED, {right}),
              HasSubstr("tests=\"1\" failures=\"0\" errors=\"0\""));
}

TEST(Junit, IsOfTheTimeAtWhichTheJobBegan) {
  Report report;
  report.generated_at = absl::FromUnixSeconds(1'763'836'400);  // a day later
  report.runs.emplace_back().job.mutable_start_time()->set_seconds(1'763'750'000);
  std::ostringstream out;
  WriteJunit(report, out);
  EXPECT_THAT(out.str(), HasSubstr("timestamp=\"2025-11-21T18:33:20\""));
}

TEST(Markdown, TheWorstComesFirst) {
  Everything service;
  const std::string text = RunGemm(service, {"--format", "markdown"}).out;
  EXPECT_LT(text.find("| FAILED |"), text.find("| passed |"));
  EXPECT_LT(text.find("| passed |"), text.find("| unsupported |"));
}

TEST(Table, InAPipeIsPlainLines) {
  Everything service;
  const Output output = RunGemm(service);
  EXPECT_EQ(output.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(output.out.find('\r'), std::string::npos);
  for (const char* line :
       {"  passed   gemm 64x32x16 bf16 onednn #0                     0.92           –    1.2e-01   "
        "  2.53 ms   "
        " "
        "850 GFLOP/s      81 %\n",
        "    bound     2 of 2,048 elements beyond their bound\n",
        "    exact     1 element differs from the exact result\n",
        "    worst     [0,63]  got 0.2207 (0x3310)  expected 0.03125 ± 5.0e-04 (0x2800)\n",
        "    repro     assay run gemm --m 64 --n 32 --k 16 --dtype bf16 --seed 7\n",
        "worker killed by SIGSEGV\n", "required: gemm onednn bf16 on cpu\n",
        "\n1 passed, 1 failed, 1 error, 1 inconclusive, 1 unsupported, 1 skipped, 1 required "
        "kernel missing in 6.2 s\n"}) {
    EXPECT_THAT(output.out, HasSubstr(line));
  }
  EXPECT_THAT(output.err, HasSubstr("gemm · cpu:0 · seed 1 · jobs/4f2k"));
}

// A job that has ended has no list of cases any more, and its results tell.
TEST(Table, TheHeadingNamesOperatorAndUsersKernel) {
  client::Run run;
  run.job.set_name("jobs/4f2k");
  run.job.add_devices("devices/cpu:0");
  EXPECT_EQ(Heading(run), "cpu:0 · seed 1 · jobs/4f2k");
  v1::CaseResult& result = run.results.emplace_back(MakeResult(0, v1::VERDICT_PASSED));
  result.mutable_spec()->set_provider("onednn");
  EXPECT_EQ(Heading(run), "gemm · cpu:0 · seed 1 · jobs/4f2k");
  v1::CaseSpec& asked = *run.job.mutable_spec()->mutable_cases()->add_cases();
  asked.mutable_softmax();
  asked.set_provider("user/3fa9c1d2e4b0");
  EXPECT_EQ(Heading(run), "softmax · cpu:0 · seed 1 · jobs/4f2k · kernel user/3fa9c1d2e4b0");
}

TEST(Table, NanMapsSayWhatIsInThem) {
  FakeService service;
  v1::CaseResult result = MakeResult(0, v1::VERDICT_PASSED);
  result.mutable_stats()->set_nan_count(2048);
  result.mutable_stats()->set_reference_nan_count(2048);
  result.mutable_stats()->clear_rho();
  result.mutable_stats()->clear_max_abs_error();
  auto* origin = result.add_provenance();
  origin->set_kind("nan");
  origin->set_origin("kernel");
  origin->set_expected(true);
  origin->set_count(2048);
  service.results = {result};
  const std::string out = RunGemm(service).out;
  EXPECT_THAT(out, HasSubstr("NaN map           –          –"));
  EXPECT_THAT(out, HasSubstr("2,048 NaN, all expected"));
}

TEST(Table, OnATerminalNamesTheDeviceAndDrawsProgress) {
  FakeService service;
  for (int i = 0; i < 60; ++i) service.results.push_back(MakeResult(i, v1::VERDICT_PASSED));
  service.results[30] = MakeResult(30, v1::VERDICT_FAILED);
  const Output output = RunGemm(service, {}, true);
  EXPECT_THAT(output.out, HasSubstr("gemm · cpu:0 EPYC 9755 (2 cores) · seed 1 · jobs/4f2k\n"));
  EXPECT_THAT(output.out, HasSubstr("gemm ██████████░░░░░░░░░░ 31/60 (1 to look at)"));
  EXPECT_THAT(output.out, HasSubstr("FAILED"));
  EXPECT_THAT(output.out, HasSubstr("… and 39 more passed"));
  // Streams were not told to colour.
  EXPECT_THAT(output.out, Not(HasSubstr("\x1b[3")));
}

TEST(Units, AsPeopleSayThem) {
  EXPECT_EQ(SecondsText(2.53e-3), "2.53 ms");
  EXPECT_EQ(SecondsText(4.13e-6), "4.13 µs");
  EXPECT_EQ(SecondsText(6.24), "6.2 s");
  EXPECT_EQ(SecondsText(852), "14 min 12 s");
  EXPECT_EQ(SecondsText(-852), "-14 min 12 s");
  EXPECT_EQ(SecondsText(1e308), "2.78e+304 h");
  EXPECT_EQ(RateText(850.4e9, "FLOP"), "850 GFLOP/s");
  EXPECT_EQ(RateText(999.9e9, "FLOP"), "1.00 TFLOP/s");
  EXPECT_EQ(RateText(31.24e9, "B"), "31.2 GB/s");
  EXPECT_EQ(PercentText(0.812), "81 %");
  EXPECT_EQ(PercentText(0.004), "0.4 %");
  EXPECT_EQ(CountText(2097152), "2,097,152");
  EXPECT_EQ(CountText(-123456), "-123,456");
  EXPECT_EQ(CountText(12), "12");
  EXPECT_EQ(ErrorText(0.12), "1.2e-01");
  EXPECT_EQ(RatioText(412.62), "412.6");
  EXPECT_EQ(RatioText(0.92), "0.92");
  EXPECT_EQ(BytesText(std::int64_t{24} << 30), "24.0 GiB");
  EXPECT_EQ(DisplayWidth("µs –"), 4U);
  EXPECT_EQ(Shorten("µµµµ", 3), "µµ…");
  EXPECT_EQ(ShortenMiddle("abcdefghij", 7), "abc…hij");
  EXPECT_EQ(ShortenMiddle("µbcdefghµ", 4), "µb…µ");
  EXPECT_EQ(EscapeXml("a<b>&\"\x01"), "a&lt;b&gt;&amp;&quot;\xEF\xBF\xBD");
  EXPECT_EQ(EscapeXml("a\uFFFE\uFFFFb\uFFFC"), "a\uFFFD\uFFFDb\uFFFC") << "XML has no such letters";
  EXPECT_EQ(EscapeMarkdown("a|b\r\n"), "a\\|b  ") << "a cell is one line";
}

}  // namespace
}  // namespace assay::client::testing
