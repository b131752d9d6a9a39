// A published table stands beside what was measured, in every format for people.
#include "client/report/published.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::CaseResult Measured(int index, const std::string& row, const std::string& provider,
                        double max_abs_error, v1::Verdict verdict) {
  v1::CaseResult result = MakeResult(index, verdict);
  v1::CaseSpec& spec = *result.mutable_spec();
  spec.mutable_attention()->set_seq(256);
  spec.set_dtype(v1::DTYPE_E4M3FN);
  spec.set_out_dtype(v1::DTYPE_FP32);
  spec.set_provider(provider);
  v1::Published& published = *spec.mutable_published();
  published.set_name(row);
  published.set_source("lessons");
  published.set_limit(0.5);
  published.set_passed(row != "One-hot");
  if (row == "One-hot") published.set_max_abs_error(1.82);
  result.mutable_stats()->set_max_abs_error(max_abs_error);
  result.mutable_stats()->set_max_abs_score(5.657);
  return result;
}

// The right kernel passes all, the wrong one fails where the source does and once more.
struct Lessons : FakeService {
  Lessons() {
    results = {Measured(0, "One-hot", "builtin", 0.0012, v1::VERDICT_PASSED),
               Measured(1, "One-hot", "planted/wrong-axis", 2.76, v1::VERDICT_FAILED),
               Measured(2, "Random | random", "builtin", 0, v1::VERDICT_PASSED),
               Measured(3, "Random | random", "planted/wrong-axis", 0.7, v1::VERDICT_FAILED)};
    verdict = v1::VERDICT_FAILED;
  }
};

Report ReportOf(const std::vector<v1::CaseResult>& results) {
  Report report;
  report.runs.emplace_back().results = results;
  return report;
}

TEST(Published, TableHasTheSourceAndEveryProviderBesideIt) {
  const Lessons service;
  const std::vector<PublishedTable> tables = PublishedTables(ReportOf(service.results));
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].title, "lessons · attention seq=256 · e4m3fn -> fp32");
  EXPECT_THAT(tables[0].header,
              ElementsAre("CASE", "MAX |S|", "PUBLISHED", "builtin", "planted/wrong-axis"));
  ASSERT_EQ(tables[0].rows.size(), 2u);
  EXPECT_THAT(tables[0].rows[0],
              ElementsAre("One-hot", "5.66", "1.82 ✗", "0.0012 ✓ passed", "2.76 ✗ FAILED"));
  EXPECT_THAT(tables[0].rows[1],
              ElementsAre("Random | random", "5.66", "< 0.5 ✓", "0 ✓ passed", "0.7 ✗ FAILED"));
  EXPECT_THAT(tables[0].notes,
              ElementsAre(HasSubstr("limit of 0.5"),
                          "builtin: the source's outcome in 1 of 2 rows, not in One-hot",
                          "planted/wrong-axis: the source's outcome in 1 of 2 rows, not in "
                          "Random | random"));
}

// A NaN where a number belongs leaves no error to measure, and is no small error.
TEST(Published, AnOutputOfAnotherClassIsNotWithinALimit) {
  v1::CaseResult result = Measured(0, "One-hot", "builtin", 0.001, v1::VERDICT_FAILED);
  result.mutable_stats()->set_class_mismatches(1);
  EXPECT_EQ(PublishedTables(ReportOf({result}))[0].rows[0][3], "0.001 ✗ FAILED");
}

TEST(Published, WhatDidNotRunAndWhatIsNotPublishedIsLeftOut) {
  v1::CaseResult unsupported = Measured(0, "One-hot", "other", 0, v1::VERDICT_UNSUPPORTED);
  EXPECT_TRUE(PublishedTables(ReportOf({unsupported, MakeResult(1, v1::VERDICT_PASSED)})).empty());
}

TEST(Published, EveryFormatForPeopleShowsTheTable) {
  Lessons service;
  const std::string text = RunGemm(service).out;
  EXPECT_THAT(text, HasSubstr("lessons · attention seq=256 · e4m3fn -> fp32\n"));
  EXPECT_THAT(text,
              HasSubstr("  One-hot             5.66     1.82 ✗  0.0012 ✓ passed  2.76 ✗ FAILED\n"));
  const std::string markdown = RunGemm(service, {"--format", "markdown"}).out;
  EXPECT_THAT(markdown, HasSubstr("| One-hot | 5.66 | 1.82 ✗ | 0.0012 ✓ passed | 2.76 ✗ FAILED |"));
  EXPECT_THAT(markdown, HasSubstr("| Random \\| random |"));
  const std::string html = RunGemm(service, {"--format", "html"}).out;
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">1.82 ✗</td><td>0.0012 ✓ passed</td>"));
  EXPECT_THAT(html, HasSubstr("&lt; 0.5 ✓"));
}

TEST(Published, JsonHasTheSourcesRow) {
  Lessons service;
  const auto report = nlohmann::json::parse(RunGemm(service, {"--format", "json"}).out);
  EXPECT_EQ(report["tests"][0]["published"]["max_abs_error"], 1.82);
  EXPECT_EQ(report["tests"][0]["published"]["passed"], false);
  EXPECT_FALSE(report["tests"][2]["published"].contains("max_abs_error"));
  FakeService plain;
  plain.results = {MakeResult(0, v1::VERDICT_PASSED)};
  EXPECT_THAT(RunGemm(plain, {"--format", "json"}).out, Not(HasSubstr("published")));
}

}  // namespace
}  // namespace assay::client::testing
