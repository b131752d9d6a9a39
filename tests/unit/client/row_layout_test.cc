// On a narrow terminal the case is what is kept; figures give way by their worth.
#include "client/report/row_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/report/json.h"
#include "client/report/units.h"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Row ARow(const std::string& name) {
  Row row;
  row.verdict = "passed";
  row.name = name;
  row.ratio = "0.92";
  row.precision = "24.0 bits";
  row.max_abs = "1.2e-01";
  row.time = "2.53 ms";
  row.rate = "850 GFLOP/s";
  row.of_roof = "81 %";
  row.measured = true;
  return row;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

constexpr char kLong[] = "attention 1x16x2048x64 causal fp16 builtin";

TEST(RowLayout, TheCaseIsWholeAndTheLineFitsAtEveryWidth) {
  for (const int width : {60, 72, 80, 100, 120, 132, 200}) {
    RowLayout layout(width, false);
    for (const std::string& name : {std::string("gemm 1024x1024x1024 bf16 onednn"),
                                    std::string(kLong), std::string("a07:7575 ") + kLong}) {
      const std::string text = layout.Line(ARow(name));
      for (const std::string& line : Lines(text)) {
        EXPECT_LE(DisplayWidth(line), static_cast<std::size_t>(width)) << line;
      }
      if (width >= 72) {
        EXPECT_THAT(text, HasSubstr(name));
      }
      EXPECT_THAT(text, HasSubstr("0.92")) << "the last to give way";
    }
    EXPECT_LE(DisplayWidth(Lines(layout.Header())[0]), static_cast<std::size_t>(width));
  }
}

TEST(RowLayout, ColumnsGiveWayByTheirWorth) {
  const auto shown = [](int width) {
    RowLayout layout(width, false);
    return layout.Header() + layout.Line(ARow(kLong));
  };
  EXPECT_THAT(shown(126), HasSubstr("MAX ABS"));
  EXPECT_THAT(shown(120), Not(HasSubstr("MAX ABS")));
  EXPECT_THAT(shown(120), HasSubstr("850 GFLOP/s"));
  EXPECT_THAT(shown(100), Not(HasSubstr("MAX ABS")));
  EXPECT_THAT(shown(100), HasSubstr("OF ROOF"));
  EXPECT_THAT(shown(100), HasSubstr("24.0 bits"));
  EXPECT_THAT(shown(80), HasSubstr("24.0 bits")) << "it is of the verdict, a time is not";
  EXPECT_THAT(shown(80), Not(HasSubstr("RATE")));
  EXPECT_THAT(shown(100), HasSubstr("2.53 ms"));
  EXPECT_THAT(shown(0), HasSubstr("MAX ABS")) << "a pipe has all of them";
}

TEST(RowLayout, ANameOrNoteWithoutRoomHasALineOfItsOwn) {
  RowLayout layout(80, false);
  const std::string name = std::string(kLong) + " row-vary/row-vary/col-vary";
  std::vector<std::string> lines = Lines(layout.Line(ARow(name)));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "  passed   " + name);
  EXPECT_THAT(lines[1], HasSubstr("24.0 bits"));
  // The figures stand where they do for other rows.
  EXPECT_EQ(lines[1].find("0.92"), Lines(layout.Line(ARow("gemm")))[0].find("0.92"));

  Row row = ARow(kLong);
  row.whole_note = "look closer: below 40 %";
  lines = Lines(layout.Line(row));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], "    look closer: below 40 %");
  EXPECT_EQ(Lines(RowLayout(0, false).Line(row)).size(), 1u) << "a pipe has a line a result";
}

// A reason ran on behind the terminal's edge, where details go on below themselves.
TEST(RowLayout, AReasonThatHasNoRoomGoesOnBelow) {
  Row row;
  row.verdict = "unsupported";
  row.name = "gemm 1024x1024x1024 bf16 onednn";
  row.whole_note =
      "oneDNN 2.6.3 has no primitive for bf16 matmul to bf16 on this CPU (could not create "
      "a primitive descriptor iterator)";
  for (const int width : {60, 80, 120}) {
    const auto lines = Lines(RowLayout(width, false).Line(row));
    ASSERT_GE(lines.size(), 2u) << width;
    EXPECT_EQ(lines[0], "  unsupported gemm 1024x1024x1024 bf16 onednn");
    EXPECT_THAT(lines[1], StartsWith("    oneDNN 2.6.3 has no"));
    for (const std::string& line : lines) {
      EXPECT_LE(DisplayWidth(line), static_cast<std::size_t>(width)) << line;
    }
  }
  EXPECT_EQ(Lines(RowLayout(200, false).Line(row)).size(), 1u);
  EXPECT_EQ(Lines(RowLayout(0, false).Line(row)).size(), 1u) << "a pipe has a line a result";
}

TEST(RowLayout, ADetailGoesOnBelowItselfAndACommandStaysWhole) {
  v1::CaseResult result;
  result.set_name("a");
  result.set_verdict(v1::VERDICT_FAILED);
  result.mutable_stats()->set_count(1);
  v1::Finding& finding = *result.add_findings();
  finding.set_reason("bound");
  for (int i = 0; i < 12; ++i) finding.set_message(finding.message() + "elements beyond ");
  result.set_repro("assay run gemm " + std::string(100, 'x') + " --seed 1");
  const auto lines = Lines(RowLayout(80, false).Block(result, ""));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[1], StartsWith("    bound     elements beyond"));
  EXPECT_THAT(lines[2], StartsWith("              elements beyond"));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_LE(DisplayWidth(lines[i]), 80u) << lines[i];
  EXPECT_EQ(lines[4], "    repro     " + result.repro());
  EXPECT_EQ(Lines(RowLayout(0, false).Block(result, "")).size(), 3u) << "in a pipe it is a line";
}

// Names of held-out shapes were wider than their column: the figures stood beside their headings.
TEST(RowLayout, APipeHasRoomForNamesThatTheClientGave) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
  const auto run = [&](const char* providers) {
    return RunGemm(service, {"--held-out", "1", "--provider", providers}).out;
  };
  for (const bool several : {false, true}) {
    service.devices =
        several ? std::vector<std::string>{"cpu:0", "cuda:11"} : std::vector<std::string>{"cpu:0"};
    service.results[1].set_device(service.devices.back());
    for (const std::string providers : {"onednn", "all"}) {
      run(providers.c_str());
      std::string name = service.created().back().spec().cases().cases(1).name();
      if (providers == "all") name += " cublaslt";
      service.results[1].set_name(name);
      const std::string text = run(providers.c_str());
      const std::vector<std::string> lines = Lines(text);
      ASSERT_GE(lines.size(), 3u) << text;
      const std::size_t end = lines[0].find("ERROR/BOUND") + std::string("ERROR/BOUND").size();
      EXPECT_EQ(lines[1].substr(end - 4, 5), "0.92 ") << text;
      EXPECT_EQ(lines[2].substr(end - 4, 5), "0.92 ") << text;
      EXPECT_THAT(lines[2], HasSubstr(name + " "));
    }
  }
}

TEST(Targets, AreToldApartInTheTable) {
  FakeService one, two;
  one.results = {MakeResult(0, v1::VERDICT_PASSED)};
  two.results = {MakeResult(0, v1::VERDICT_FAILED)};
  two.verdict = v1::VERDICT_FAILED;
  const Output both =
      Assay({"run", "gemm", "--m", "4", "--target", one.target() + "," + two.target()});
  EXPECT_THAT(both.out, HasSubstr("passed   " + one.target() + " gemm 64x32x16"));
  EXPECT_THAT(both.out, HasSubstr("FAILED   " + two.target() + " gemm 64x32x16"));
  EXPECT_THAT(RunGemm(one).out, Not(HasSubstr(one.target())));
}

TEST(Devices, AreToldApartWhereAJobHasSeveral) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
  service.results[1].set_device("cuda:1");
  service.devices = {"cpu:0", "cuda:1"};
  const Output output = RunGemm(service);
  EXPECT_THAT(output.out, HasSubstr("passed   cpu:0 gemm"));
  EXPECT_THAT(output.out, HasSubstr("passed   cuda:1 gemm"));
}

TEST(Rows, InCacheStandsWhereARoofWouldBe) {
  v1::CaseResult result = MakeResult(0, v1::VERDICT_PASSED);
  result.mutable_bench()->clear_efficiency();
  result.mutable_bench()->set_roof("cache");
  result.mutable_bench()->set_bytes_per_second(3e11);
  const Row row = RowOf(result);
  EXPECT_EQ(row.of_roof, "in cache");
  EXPECT_THAT(row.rate, StartsWith("300 GB"));
  EXPECT_EQ(row.note, "") << "no share of a roof to look closer at";
}

TEST(Rows, TheNoteIsThereWithAndWithoutTheChange) {
  v1::CaseResult result = MakeResult(0, v1::VERDICT_PASSED);
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_noisy(true);
  bench.set_noise(0.01);
  bench.mutable_baseline()->set_change(v1::CHANGE_FASTER);
  bench.mutable_baseline()->set_ratio(0.5);
  const Row row = RowOf(result);
  EXPECT_THAT(row.note, Not(HasSubstr(row.change)));
  EXPECT_EQ(row.whole_note, row.note + "; " + row.change);
  result.set_verdict(v1::VERDICT_FAILED);
  EXPECT_EQ(RowOf(result).whole_note, RowOf(result).note) << "its finding says the change";
}

TEST(RowLayout, AVerdictHasItsColour) {
  Row row = ARow("gemm");
  EXPECT_THAT(RowLayout(0, true).Line(row), StartsWith("  \x1b[2mpassed"));
  row.judged = v1::VERDICT_PASSED;
  EXPECT_THAT(RowLayout(0, true).Line(row), StartsWith("  \x1b[32mpassed"));
  row.judged = v1::VERDICT_ERROR;
  EXPECT_THAT(RowLayout(0, true).Line(row), StartsWith("  \x1b[31;1mpassed"));
}

// Whose work a user's kernel is may show in the libraries that it had loaded. A pass shows them
// too.
TEST(Rows, TheLibrariesOfAUsersKernelAreShown) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
  for (const char* name : {"libgomp.so.1", "libopenblas.so.0"}) {
    service.results[0].add_loaded_libraries(name);
  }
  service.results[1].add_loaded_libraries("libgomp.so.1");
  const Output table = RunGemm(service);
  EXPECT_THAT(table.out, HasSubstr("    libraries libopenblas.so.0\n")) << "OpenMP's does no work";
  EXPECT_THAT(table.out, Not(HasSubstr("libgomp")));
  const Json json = Json::parse(RunGemm(service, {"--format", "json"}).out);
  EXPECT_EQ(json["tests"][0]["loaded_libraries"], Json({"libgomp.so.1", "libopenblas.so.0"}));
  EXPECT_EQ(json["tests"][1]["loaded_libraries"], Json::array({"libgomp.so.1"}));
  EXPECT_THAT(RunGemm(service, {"--format", "html"}).out, HasSubstr("libopenblas.so.0"));
  EXPECT_THAT(RunGemm(service, {"--format", "markdown"}).out, HasSubstr("libopenblas.so.0"));
  EXPECT_THAT(Assay(service, {"explain", "4f2k", "0"}).out,
              HasSubstr("libraries libgomp.so.1, libopenblas.so.0"));
}

// What a user's function raised is shown to whoever looks at the job.
TEST(Rows, AMessageSendsNothingToTheTerminalThatItObeys) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_ERROR)};
  service.results[0].mutable_findings(0)->set_message("raised \x1b[31mred\u202e\nnext");
  const std::vector<std::vector<std::string>> commands = {
      {"show", "4f2k"}, {"show", "4f2k", "0"}, {"explain", "4f2k"}};
  for (const std::vector<std::string>& command : commands) {
    const Output output = Assay(service, command);
    EXPECT_THAT(output.out, HasSubstr("raised ?[31mred?"));
    EXPECT_THAT(output.out, Not(HasSubstr("\x1b")));
  }
}

}  // namespace
}  // namespace assay::client::testing
