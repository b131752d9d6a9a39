// The effective precision has its place in every form of a report, and none where it was not
// measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_split.h"
#include "client/report/explain.h"
#include "client/report/row.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Precision Bits(double bits, double declared) {
  v1::Precision precision;
  precision.set_bits(bits);
  precision.set_declared_bits(declared);
  return precision;
}

constexpr char kLost[] = "the errors are 118 times those of fp32 sums; they are those of fp16 sums";

// A right kernel, one that lost its precision, and one of which nothing can be told.
struct Three : FakeService {
  Three() {
    results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_FAILED),
               MakeResult(2, v1::VERDICT_PASSED)};
    verdict = v1::VERDICT_FAILED;
    v1::Precision& right = *results[0].mutable_precision();
    right = Bits(24, 24);
    right.set_rms(0.73);
    right.set_gain(0);  // measured, and nothing was found
    right.set_gain_error(1.5e-9);
    v1::CaseResult& lost = results[1];
    *lost.mutable_precision() = Bits(17.1174, 24);
    lost.mutable_precision()->set_rms(118);
    lost.mutable_precision()->set_looks_like("fp16 sums");
    lost.clear_findings();
    lost.mutable_stats()->set_rho(0.71);
    v1::Finding& finding = *lost.add_findings();
    finding.set_reason("precision");
    finding.set_message(kLost);
  }
};

TEST(Precision, IsOneNumberIfItIsReachedAndTwoIfNot) {
  EXPECT_EQ(BitsText(Bits(24, 24)), "24.0 bits");
  EXPECT_EQ(BitsText(Bits(10.97, 11)), "11.0 bits") << "shown as the same";
  EXPECT_EQ(BitsText(Bits(10.94, 11)), "10.9 of 11");
  EXPECT_EQ(BitsText(Bits(11.4, 24)), "11.4 of 24");
  EXPECT_EQ(BitsText(Bits(20, 22.5)), "20.0 of 22.5");
  EXPECT_EQ(BitsText(Bits(-std::numeric_limits<double>::infinity(), 24)), "-Infinity of 24");
  v1::Precision precision;
  EXPECT_EQ(BitsText(precision), "") << "not measured, and not 0";
  precision.set_declared_bits(24);
  EXPECT_EQ(BitsText(precision), "");
  precision.set_bits(0);
  EXPECT_EQ(BitsText(precision), "0.0 of 24") << "measured, and nothing is left";
  precision.clear_declared_bits();
  EXPECT_EQ(BitsText(precision), "0.0 bits");
}

TEST(Precision, HasAColumnInTheTableAndADashWhereThereIsNone) {
  const Three service;
  const Output output = RunGemm(service);
  for (const char* line :
       {"  VERDICT  CASE                                      ERROR/BOUND   PRECISION    MAX ABS",
        "onednn #0                     0.92   24.0 bits    1.2e-01     2.53 ms",
        "onednn #1                     0.71  17.1 of 24    1.2e-01     2.53 ms",
        "onednn #2                     0.92           –    1.2e-01     2.53 ms"}) {
    EXPECT_THAT(output.out, HasSubstr(line));
  }
  EXPECT_THAT(output.out, HasSubstr(std::string("\n    precision ") + kLost + "\n"));
  EXPECT_THAT(output.out, Not(HasSubstr("\n    precision 17.1"))) << "the row has it";
}

// The rows of a comparison of times have their own columns, and so have failures above them.
TEST(Precision, IsNoColumnBesideTimesAlone) {
  const Three service;
  const Output output = Assay(service, {"bench", "gemm", "--m", "64", "--n", "32", "--k", "16",
                                        "--dtype", "bf16", "--provider", "onednn"});
  EXPECT_THAT(output.out, AllOf(HasSubstr("FAILED"), HasSubstr(kLost)));
  EXPECT_THAT(output.out, Not(HasSubstr("PRECISION")));
}

TEST(Precision, StandsBelowARowWithoutFigures) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_INCONCLUSIVE)};
  service.results[0].mutable_findings(0)->set_reason("suspect");
  *service.results[0].mutable_precision() = Bits(11.4, 24);
  EXPECT_THAT(RunGemm(service).out, HasSubstr("\n    precision 11.4 of 24\n"));
}

TEST(Precision, IsInJsonOnlyAsFarAsItWasMeasured) {
  const Three service;
  const json tests = json::parse(RunGemm(service, {"--format", "json"}).out)["tests"];
  EXPECT_EQ(tests[0]["precision"], json({{"bits", 24.0},
                                         {"declared_bits", 24.0},
                                         {"rms", 0.73},
                                         {"gain", 0.0},
                                         {"gain_error", 1.5e-9}}));
  EXPECT_EQ(tests[1]["precision"], json({{"bits", 17.1174},
                                         {"declared_bits", 24.0},
                                         {"rms", 118.0},
                                         {"looks_like", "fp16 sums"}}));
  EXPECT_EQ(tests[1]["reason"], "precision");
  EXPECT_FALSE(tests[2].contains("precision"));
  FakeService empty;
  empty.results = {MakeResult(0, v1::VERDICT_PASSED)};
  empty.results[0].mutable_precision();
  EXPECT_FALSE(json::parse(RunGemm(empty, {"--format", "jsonl"}).out).contains("precision"))
      << "nothing of it was measured";
}

TEST(Precision, HasColumnsInCsv) {
  const Three service;
  const std::vector<std::string> lines =
      absl::StrSplit(RunGemm(service, {"--format", "csv"}).out, "\r\n");
  ASSERT_EQ(lines.size(), 5u);
  const auto cells = [&](std::size_t line) {
    // None of these fields has a comma.
    const std::vector<std::string> all = absl::StrSplit(lines[line], ',');
    const std::vector<std::string> head = absl::StrSplit(lines[0], ',');
    const auto at = std::find(head.begin(), head.end(), "precision.bits") - head.begin();
    return std::vector<std::string>(all.begin() + at, all.begin() + at + 7);
  };
  EXPECT_THAT(cells(0),
              ::testing::ElementsAre("precision.bits", "precision.declared_bits", "precision.rms",
                                     "precision.gain", "precision.gain_error", "precision.offset",
                                     "precision.looks_like"));
  EXPECT_THAT(cells(1), ::testing::ElementsAre("24.0", "24.0", "0.73", "0.0", "1.5e-09", "", ""));
  EXPECT_THAT(cells(2),
              ::testing::ElementsAre("17.1174", "24.0", "118.0", "", "", "", "fp16 sums"));
  EXPECT_THAT(cells(3), ::testing::Each(""));
}

TEST(Precision, HasAColumnInMarkdown) {
  const Three service;
  const std::string text = RunGemm(service, {"--format", "markdown"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("| Error/bound | Precision | Max abs |"),
                          HasSubstr("| 0.92 | 24.0 bits | 1.2e-01 |"),
                          HasSubstr("| 0.71 | 17.1 of 24 | 1.2e-01 |"),
                          HasSubstr("| 0.92 |  | 1.2e-01 |")));
  // As many cells in the rule below the head as in the head.
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const auto head = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("| Verd");
  });
  ASSERT_NE(head, lines.end());
  for (auto line = head; line != lines.end() && line->starts_with("|"); ++line) {
    EXPECT_EQ(std::count(line->begin(), line->end(), '|'),
              std::count(head->begin(), head->end(), '|'))
        << *line;
  }
}

TEST(Precision, FailsAJunitCaseByItsReason) {
  const Three service;
  EXPECT_THAT(RunGemm(service, {"--format", "junit"}).out,
              HasSubstr(std::string("<failure message=\"") + kLost + "\" type=\"precision\">"));
}

TEST(Precision, IsAWordOfTheHtmlReport) {
  const Three service;
  const std::string page = RunGemm(service, {"--format", "html"}).out;
  EXPECT_THAT(page, HasSubstr(R"("precision":"24.0 bits")"));
  EXPECT_THAT(page, HasSubstr(R"("precision":"17.1 of 24")"));
  EXPECT_THAT(page, HasSubstr(R"("precision":{"bits":17.1174)"));
  EXPECT_THAT(page, HasSubstr("{title: 'Precision', key: (c) => c.bits, cell: 'precision'"));
}

TEST(Precision, IsExplainedAndItsFormatSaidOnce) {
  Three service;
  v1::Precision& lost = *service.results[1].mutable_precision();
  lost.set_gain(-1.3e-5);
  lost.set_gain_error(3e-7);
  lost.set_offset(2e-6);
  const auto line = [](const v1::CaseResult& result) {
    std::vector<std::string> texts;
    for (const Detail& detail : ExplanationOf(result)) {
      if (detail.label == "precision") texts.push_back(detail.text);
    }
    return texts;
  };
  EXPECT_THAT(line(service.results[0]),
              ::testing::ElementsAre("24.0 bits, rms error 0.73 times what rounding makes likely, "
                                     "gain 0 ± 1.5e-09"));
  EXPECT_THAT(
      line(service.results[1]),
      ::testing::ElementsAre(kLost,
                             "17.1 of 24, rms error 118.0 times what rounding makes likely, gain "
                             "-1.3e-05 ± 3.0e-07, offset 2.0e-06"));
  EXPECT_THAT(line(service.results[2]), ::testing::IsEmpty());
  // A kernel may declare what it does, and pass.
  service.results[0].mutable_precision()->set_looks_like("bf16x9");
  EXPECT_THAT(line(service.results[0]), ::testing::ElementsAre(HasSubstr("errors as of bf16x9")));
  EXPECT_THAT(
      Assay(service, {"explain", "4f2k", "1"}).out,
      HasSubstr(std::string("    precision ") + kLost + "\n              17.1 of 24, rms error"));
}

TEST(Precision, IsShownWithACase) {
  const Three service;
  EXPECT_THAT(Assay(service, {"show", "4f2k", "1"}).out,
              AllOf(HasSubstr("17.1 of 24"), HasSubstr("precision\n"),
                    HasSubstr("      declared_bits          24.0\n"),
                    HasSubstr("      looks_like             fp16 sums\n")));
  EXPECT_THAT(Assay(service, {"show", "4f2k", "2"}).out, Not(HasSubstr("declared_bits")));
}

}  // namespace
}  // namespace assay::client::testing
