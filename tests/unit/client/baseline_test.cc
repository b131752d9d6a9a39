// Baselines as documents and back, comparisons in words, and providers side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/cli/baseline_source.h"
#include "client/report/baseline.h"
#include "client/report/comparison.h"
#include "client/report/json.h"
#include "client/report/side_by_side.h"
#include "google/protobuf/util/message_differencer.h"

namespace assay::client {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

v1::CaseResult Timed(const std::string& name, const std::string& provider, double seconds) {
  v1::CaseResult result;
  result.set_name(name + " " + provider);
  result.set_device("cpu:0");
  result.set_verdict(v1::VERDICT_PASSED);
  v1::CaseSpec& spec = *result.mutable_spec();
  spec.set_name(result.name());
  spec.mutable_conv()->set_batch(2);
  spec.mutable_conv()->add_input(56);
  spec.mutable_conv()->add_input(48);
  spec.set_dtype(v1::DTYPE_BF16);
  spec.set_provider(provider);
  spec.set_pattern("normal:0.5");
  spec.set_mode(v1::MODE_BENCHMARK);
  spec.set_seed(std::uint64_t{1} << 63);
  result.mutable_stats()->set_count(1);
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_median_seconds(seconds);
  bench.set_p10_seconds(seconds * 0.99);
  bench.set_p90_seconds(seconds / 3 + seconds);
  bench.set_samples(17);
  bench.set_noise(0.1);
  bench.set_flops_per_second(1e9 / 3);
  return result;
}

v1::Baseline Sample() {
  v1::Baseline baseline;
  baseline.set_name("file.json");
  baseline.set_job("jobs/x");
  baseline.set_device("cpu:0");
  baseline.set_model("a processor (2 cores)");
  baseline.set_driver_version("570.1");
  baseline.set_suite("smoke");
  baseline.set_suite_version("2");
  baseline.mutable_create_time()->set_seconds(1'700'000'000);
  (*baseline.mutable_versions())["onednn"] = "2.6.3";
  for (const char* provider : {"builtin", "onednn"}) {
    *baseline.add_results() = Timed("conv", provider, 1e-3 / 7);
    baseline.mutable_results(baseline.results_size() - 1)->clear_stats();
  }
  baseline.set_case_count(2);
  return baseline;
}

TEST(BaselineDocument, ReadsBackAsItWasWritten) {
  const v1::Baseline baseline = Sample();
  const auto read = ParseBaseline(Indented(BaselineJson(baseline)), "file.json");
  ASSERT_TRUE(read.ok()) << read.status();
  std::string difference;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(baseline, *read)) << difference;
}

// Else the times of a sum over the first axis would be those of one over the last.
TEST(BaselineDocument, KeepsTheAxisZero) {
  v1::Baseline baseline = Sample();
  v1::ReduceProblem& reduce = *baseline.mutable_results(0)->mutable_spec()->mutable_reduce();
  reduce.add_extents(64);
  reduce.add_extents(64);
  reduce.set_kind("sum");
  reduce.set_axis(0);
  const auto read = ParseBaseline(Indented(BaselineJson(baseline)), "file.json");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->results(0).spec().reduce().has_axis());
  EXPECT_EQ(read->results(0).spec().reduce().axis(), 0);
  EXPECT_FALSE(ShapeOf(baseline.results(1).spec()).contains("axis"));
}

TEST(BaselineDocument, NamesOfAFileAreFitForATerminal) {
  Json document = BaselineJson(Sample());
  document["model"] = "\x1b[2Jcard";
  document["tests"][0]["name"] = "conv \u202e1";
  const auto read = ParseBaseline(Indented(document), "file.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model(), "?[2Jcard");
  EXPECT_EQ(read->results(0).name(), "conv ?1");
}

TEST(BaselineDocument, OtherVersionsAreNamed) {
  v1::Baseline there = Sample();
  (*there.mutable_versions())["onednn"] = "3.0";
  (*there.mutable_versions())["openblas"] = "0.3";
  EXPECT_THAT(OtherVersions(there, Sample()), ElementsAre("onednn 3.0 there, 2.6.3 here"));
}

TEST(BaselineDocument, AWrongValueIsNamedByItsPath) {
  Json document = BaselineJson(Sample());
  document["tests"][1]["shape"]["input"][1] = "wide";
  EXPECT_EQ(ParseBaseline(Compact(document), "f").status().message(),
            "f: tests[1].conv.input[1]: must be a whole number, got \"wide\"");
  document = BaselineJson(Sample());
  document["tests"][0]["dtype"] = "fp15";
  EXPECT_THAT(std::string(ParseBaseline(Compact(document), "f").status().message()),
              HasSubstr("fp15"));
  document = BaselineJson(Sample());
  document["tests"][1]["device"] = "cpu:1";
  EXPECT_THAT(std::string(ParseBaseline(Compact(document), "f").status().message()),
              HasSubstr("times of 2 devices"));
  document = BaselineJson(Sample());
  document["tests"][0]["later"] = {{"than", "this"}};
  document["later"] = 1;
  EXPECT_TRUE(ParseBaseline(Compact(document), "f").ok()) << "what is newer is passed over";
}

v1::BaselineChange ChangeOf(const std::string& name, double ratio, v1::Change change) {
  v1::BaselineChange c;
  c.set_name(name);
  c.set_baseline("baselines/x");
  c.set_baseline_seconds(1e-3);
  c.set_seconds(1e-3 * ratio);
  c.set_ratio(ratio);
  c.set_noise(0.012);
  c.set_threshold(0.05);
  c.set_change(change);
  return c;
}

TEST(Comparison, TheSlowestComesFirst) {
  const Comparison comparison{
      "baselines/x",
      "jobs/y",
      {ChangeOf("even", 1, v1::CHANGE_SAME), ChangeOf("slow", 1.1, v1::CHANGE_SLOWER),
       ChangeOf("fast", 0.5, v1::CHANGE_FASTER), ChangeOf("slowest", 2, v1::CHANGE_SLOWER),
       ChangeOf("unsure", 1.2, v1::CHANGE_AMBIGUOUS)},
      {"gone"},
      {"new"}};
  std::ostringstream out;
  WriteComparison(comparison, Format::kTable, out);
  EXPECT_EQ(
      out.str(),
      "  CHANGE     CASE     BASELINE      NOW  RATIO  NOISE\n"
      "  slower     slowest   1.00 ms  2.00 ms  2.000  ± 1 %\n"
      "  slower     slow      1.00 ms  1.10 ms  1.100  ± 1 %\n"
      "  ambiguous  unsure    1.00 ms  1.20 ms  1.200  ± 1 %\n"
      "  faster     fast      1.00 ms   500 µs  0.500  ± 1 %\n"
      "  same       even      1.00 ms  1.00 ms  1.000  ± 1 %\n"
      "  only in baselines/x: gone\n"
      "  only in jobs/y: new\n"
      "jobs/y against baselines/x: 2 slower, 1 ambiguous, 1 faster, 1 same, 0 lost (threshold 5 "
      "%)\n");
  EXPECT_EQ(ChangeText(comparison.changes[1]), "slower 1.100×");
  EXPECT_EQ(ChangeText(comparison.changes[4]), "ambiguous 1.200× ± 1 %");
  EXPECT_EQ(ChangeText(comparison.changes[0]), "same");
  v1::BaselineChange hidden = ChangeOf("hidden", 1, v1::CHANGE_AMBIGUOUS);
  hidden.set_most_ratio(1.3);
  EXPECT_EQ(ChangeText(hidden), "ambiguous 1.000 to 1.300× ± 1 %");
  hidden.set_least_ratio(0.9);
  EXPECT_EQ(ChangeText(hidden), "ambiguous 0.900 to 1.300× ± 1 %");
  hidden.set_change(v1::CHANGE_SLOWER);
  EXPECT_EQ(ChangeText(hidden), "slower 1.000×");
  hidden.set_runs(3);
  EXPECT_EQ(ChangeText(hidden), "slower 1.000× in 3 runs");
  hidden.set_change(v1::CHANGE_SAME);
  EXPECT_EQ(ChangeText(hidden), "same in 3 runs");
}

TEST(Comparison, ACaseThatFailsNowIsInEveryFormat) {
  v1::CaseResult crashed;
  crashed.set_name("gemm 8");
  crashed.set_verdict(v1::VERDICT_ERROR);
  crashed.add_findings()->set_reason("crash");
  const Comparison comparison{"baselines/x", "jobs/y",  {ChangeOf("even", 1, v1::CHANGE_SAME)},
                              {"gone"},      {"fresh"}, {crashed}};
  for (const auto& [format, words] :
       {std::pair{Format::kTable, "gemm 8: no time now, ERROR crash"},
        std::pair{Format::kMarkdown, "- gemm 8: no time now, ERROR crash"},
        std::pair{Format::kTable, "1 same, 1 lost (threshold 5 %)"},
        std::pair{Format::kMarkdown, "1 same, 1 lost (threshold 5 %)"},
        std::pair{Format::kJson, "\"lost_count\": 1"},
        std::pair{Format::kJsonl, "{\"name\":\"gone\",\"change\":\"missing\"}\n"},
        std::pair{Format::kJsonl, "{\"name\":\"fresh\",\"change\":\"added\"}\n"},
        std::pair{Format::kJsonl, "\"change\":\"lost\"}\n"},
        std::pair{Format::kJsonl, "\"verdict\":\"ERROR\",\"findings\":[{\"reason\":\"crash\""},
        std::pair{Format::kCsv, "gemm 8,lost,"}, std::pair{Format::kJson, "\"lost\""}}) {
    std::ostringstream out;
    WriteComparison(comparison, format, out);
    EXPECT_THAT(out.str(), HasSubstr(words));
    EXPECT_THAT(out.str(), HasSubstr("gone"));
    EXPECT_THAT(out.str(), HasSubstr("fresh"));
  }
}

TEST(Comparison, ThatEveryCaseIsLostIsInTheLastLine) {
  v1::CaseResult wrong;
  wrong.set_verdict(v1::VERDICT_FAILED);
  Comparison comparison{"baselines/x", "jobs/y", {}, {}, {}};
  EXPECT_EQ(ChangeSummary(comparison), "no case in common");
  comparison.lost = {wrong, wrong};
  EXPECT_EQ(ChangeSummary(comparison), "2 lost, no other case in common");
}

// Half a document was as good as a whole one, or was "not JSON" and no more.
TEST(BaselineDocument, WhatWasCutIsTold) {
  Json document = BaselineJson(Sample());
  const auto said = [](const std::string& text) {
    return std::string(ParseBaseline(text, "f").status().message());
  };
  const std::string whole = Compact(document);
  EXPECT_EQ(said(whole.substr(0, 90)),
            "f: is no baseline: not JSON (it ends after 90 bytes, and not with a }: cut short?)");
  EXPECT_EQ(said(" \n"), "f: is no baseline: not JSON: it is empty");
  EXPECT_EQ(said("{]}"), "f: is no baseline: not JSON");
  EXPECT_TRUE(ParseBaseline(whole, "f").ok());
  const int times = ParseBaseline(whole, "f")->results_size();
  document["case_count"] = times + 1;
  EXPECT_EQ(said(Compact(document)),
            absl::StrCat("f: case_count: must be the number of its tests with a time, ", times,
                         ", got ", times + 1));
}

TEST(BaselineDocument, NoTimeIsDroppedUnsaid) {
  const Json baseline = BaselineJson(Sample());
  Json report = baseline;
  report["schema"] = "assay.report/v1";
  const auto said = [](const Json& document) {
    return std::string(ParseBaseline(Compact(document), "f").status().message());
  };
  for (const Json& wrong : {Json(-1e-3), Json(0), Json("NaN"), Json("Infinity"), Json("soon")}) {
    for (Json document : {baseline, report}) {
      document["tests"][1]["bench"]["median_seconds"] = wrong;
      EXPECT_EQ(said(document),
                "f: tests[1].bench.median_seconds: must be a time above 0 [s], got " +
                    wrong.dump() + " (conv onednn)");
    }
  }
  for (const char* key : {"bench", "bench.median_seconds"}) {
    for (Json document : {baseline, report}) {
      if (std::string(key) == "bench") {
        document["tests"][0].erase("bench");
      } else {
        document["tests"][0]["bench"].erase("median_seconds");
      }
      EXPECT_THAT(said(document), HasSubstr("tests[0].bench.median_seconds: is missing"));
    }
  }
  for (Json document : {baseline, report}) {
    document["tests"][1]["bench"]["median_seconds"] = 1e308;
    EXPECT_EQ(said(document),
              "f: tests[1].bench.median_seconds: must be a time of at most a year [s], got 1e+308 "
              "(conv onednn)");
  }
  for (const Json& wrong : {Json(-1), Json("NaN")}) {
    Json document = report;
    document["tests"][0]["bench"]["noise"] = wrong;
    EXPECT_THAT(said(document), HasSubstr("tests[0].bench.noise: must be a share of the time, 0 or "
                                          "more, got " +
                                          wrong.dump()));
  }
  // A report may have what was not timed, or did not pass.
  Json untimed = report;
  untimed["tests"][0].erase("bench");
  untimed["tests"][0]["verdict"] = "UNSUPPORTED";
  const auto read = ParseBaseline(Compact(untimed), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->results_size(), 1);
}

Report Both() {
  Report report;
  Run& run = report.runs.emplace_back();
  run.results = {Timed("conv 1", "builtin", 2e-3), Timed("conv 1", "onednn", 1e-3),
                 Timed("conv 2", "builtin", 1e-3), Timed("conv 2", "onednn", 5e-4)};
  run.results[3].set_verdict(v1::VERDICT_FAILED);
  run.results[3].add_findings()->set_reason("bound");
  return report;
}

TEST(SideBySide, TheBestIsOneAndWhatDoesNotVerifyHasNoRank) {
  std::ostringstream out, err;
  WriteSideBySide(Both(), {out, err});
  EXPECT_EQ(out.str(),
            "           builtin                     onednn\n"
            "  CASE     TIME ms  MFLOP/s  OF BEST   TIME ms  MFLOP/s  OF BEST\n"
            "  conv 1      2.00      333    2.00×      1.00      333    1.00×\n"
            "  conv 2      1.00      333    1.00×   FAILED bound\n");
}

TEST(SideBySide, ATimeThatIsInDoubtIsSaidAllTheSame) {
  v1::CaseResult small = Timed("conv", "builtin", 1.5e-6);
  small.set_verdict(v1::VERDICT_INCONCLUSIVE);
  small.add_findings()->set_reason("efficiency");
  const auto text = [&small] {
    Report report;
    report.runs.emplace_back().results = {small};
    std::ostringstream out, err;
    WriteSideBySide(report, {out, err});
    return out.str();
  };
  EXPECT_THAT(text(), HasSubstr("1.50"));
  small.mutable_findings(0)->set_reason("replay");
  EXPECT_THAT(text(), HasSubstr("1.50"));
  small.mutable_findings(0)->set_reason("zeros");
  EXPECT_THAT(text(), HasSubstr("inconclusive zeros"));
  EXPECT_THAT(text(), Not(HasSubstr("1.50")));
}

TEST(SideBySide, SaysTheShareOfTheRoofWhereItIsKnown) {
  Report report = Both();
  report.runs[0].results[0].mutable_bench()->set_efficiency(0.37);
  report.runs[0].results[1].mutable_bench()->set_roof("cache");
  std::ostringstream out, err;
  WriteSideBySide(report, {out, err});
  EXPECT_EQ(out.str(),
            "           builtin                              onednn\n"
            "  CASE     TIME ms  MFLOP/s  OF ROOF  OF BEST   TIME ms  MFLOP/s   OF ROOF  OF BEST\n"
            "  conv 1      2.00      333     37 %    2.00×      1.00      333  in cache    1.00×\n"
            "  conv 2      1.00      333             1.00×   FAILED bound\n");
}

TEST(SideBySide, AColumnHasOneUnitHoweverFarItsFiguresAreApart) {
  Report report = Both();
  auto& results = report.runs[0].results;
  for (v1::CaseResult& result : results) result.mutable_spec()->mutable_gemm();
  results[0].mutable_bench()->set_median_seconds(4.56e-6);
  results[2].mutable_bench()->set_median_seconds(1.5);
  results[0].mutable_bench()->set_flops_per_second(1.2e12);
  // A small case that the cache holds is still a product among products.
  results[0].mutable_bench()->set_roof("cache");
  results[0].mutable_bench()->set_bytes_per_second(5e9);
  results[2].mutable_bench()->set_noisy(true);
  std::ostringstream out, err;
  WriteSideBySide(report, {out, err});
  EXPECT_EQ(out.str(),
            "           builtin                                  onednn\n"
            "  CASE     TIME ms     MFLOP/s   OF ROOF  OF BEST   TIME ms   MFLOP/s  OF ROOF  OF "
            "BEST\n"
            "  conv 1   0.00456   1,200,000  in cache    1.00×      1.00       333           "
            "219.30×\n"
            "  conv 2     1,500~        333              1.00×   FAILED bound\n"
            "  ~ noisy: its launches did not settle, or others disturbed them\n");
  // What moves data beside what computes has a column of its own.
  for (const std::size_t i : {1u, 3u}) {
    results[i].mutable_spec()->mutable_copy();
    results[i].mutable_bench()->clear_flops_per_second();
    results[i].mutable_bench()->set_bytes_per_second(5e9);
  }
  out.str("");
  WriteSideBySide(report, {out, err});
  EXPECT_THAT(out.str(), HasSubstr(" GB/s "));
  EXPECT_THAT(out.str(), HasSubstr("FLOP/s "));
}

TEST(SideBySide, ANarrowTerminalHasALineAProvider) {
  std::ostringstream out, err;
  Surface surface{out, err};
  surface.width = 60;
  WriteSideBySide(Both(), surface);
  EXPECT_THAT(out.str(), HasSubstr("  conv 1\n    builtin     2.00  "));
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 62u) << line;
}

TEST(SideBySide, OneProviderHasNoRatio) {
  Report report = Both();
  report.runs[0].results = {report.runs[0].results[0]};
  std::ostringstream out, err;
  WriteSideBySide(report, {out, err});
  EXPECT_THAT(out.str(), Not(HasSubstr("OF BEST")));
}

TEST(SideBySide, WhatAProfilerCountedIsALineBeneath) {
  Report report = Both();
  v1::BenchStats& perf = *report.runs[0].results[0].mutable_bench();
  (*perf.mutable_profile())["cache-misses"] = 81234;
  (*perf.mutable_profile())["task-clock"] = 7.24;
  perf.set_profile_note("counter instructions not supported");
  v1::BenchStats& ncu = *report.runs[0].results[1].mutable_bench();
  (*ncu.mutable_profile())["dram__throughput.avg.pct_of_peak_sustained_elapsed"] = 34.7;
  (*ncu.mutable_profile())
      ["smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"] = 1.25;
  report.runs[0].results[2].mutable_bench()->set_profile_note("perf is not installed on this host");
  std::ostringstream out, err;
  WriteSideBySide(report, {out, err});
  EXPECT_EQ(out.str(),
            "           builtin                     onednn\n"
            "  CASE     TIME ms  MFLOP/s  OF BEST   TIME ms  MFLOP/s  OF BEST\n"
            "  conv 1      2.00      333    2.00×      1.00      333    1.00×\n"
            "    builtin: cache-misses 81,234, task-clock 7.24 ms; counter instructions not "
            "supported\n"
            "    onednn: dram__throughput 34.7 %, stalled long_scoreboard 1.25\n"
            "  conv 2      1.00      333    1.00×   FAILED bound\n"
            "    builtin: perf is not installed on this host\n");
  Surface narrow{out, err};
  narrow.width = 60;
  WriteSideBySide(report, narrow);
  EXPECT_THAT(out.str(), HasSubstr("      cache-misses 81,234, task-clock 7.24 ms"));
}

TEST(BaselineSource, WordsAreNamesJobsOrFiles) {
  EXPECT_EQ(ParseBaselineSource("nightly")->name(), "baselines/nightly");
  EXPECT_EQ(ParseBaselineSource("baselines/nightly")->name(), "baselines/nightly");
  EXPECT_EQ(ParseBaselineSource("jobs/4f2k")->name(), "jobs/4f2k");
  EXPECT_TRUE(CheckNewBaselineName("nightly").ok());
  EXPECT_THAT(std::string(CheckNewBaselineName("a.json").message()),
              HasSubstr("would be read as a file"));
  EXPECT_EQ(ParseBaselineSource("no-such.json").status().message(),
            "no-such.json: cannot be read: No such file or directory");
  EXPECT_EQ(ParseBaselineSource("/").status().message(), "/: is a folder, and no baseline");
  EXPECT_EQ(ParseBaselineSource("/dev/zero").status().message(),
            "/dev/zero: is a pipe or a device; must be a regular file");
  EXPECT_DOUBLE_EQ(*ParseThreshold("5%"), 0.05);
  EXPECT_DOUBLE_EQ(*ParseThreshold("0.1"), 0.1);
  EXPECT_FALSE(ParseThreshold("five").ok());
  EXPECT_EQ(ParseThreshold("5").status().message(), "threshold: 5 would be 500 %; say 5% or 0.05");
  EXPECT_EQ(ParseThreshold("300").status().message(), "threshold: 300 would be 30000 %; say 300%");
}

}  // namespace
}  // namespace assay::client
