// explain and --slice against a fake daemon: what is asked, what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/lib/parse.h"
#include "client/report/grid.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::CaseResult Diagnosed(int index) {
  v1::CaseResult result = MakeResult(index, v1::VERDICT_FAILED);
  result.set_pattern_of_errors("all in rows 63, 127 (period 64)");
  result.set_reads_as("the last row of each tile of 64 rows is wrong");
  result.set_next_step("look at tile edges");
  v1::OperandStats& a = *result.add_inputs();
  a.set_name("a");
  a.set_count(1024);
  a.set_min(-4);
  a.set_max(4.5);
  a.set_mean(0);
  a.set_rms(1);
  v1::ProbeResult& probe = *result.add_probes();
  probe.set_name("exact-sparse");
  probe.set_verdict(v1::VERDICT_PASSED);
  return result;
}

v1::Slice MakeSlice() {
  v1::Slice slice;
  slice.set_name("actual[2:4,6:9]");
  for (const int i : {2, 6}) slice.add_begin(i);
  for (const int i : {2, 3}) slice.add_shape(i);
  for (int i = 0; i < 6; ++i) {
    slice.add_values(i * 1.5);
    slice.add_bits("0x000" + std::to_string(i));
  }
  return slice;
}

TEST(Explain, SaysTheRuleTheWorstTheChecksAndTheCause) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), Diagnosed(1)};
  const Output output = Assay(service, {"explain", "4f2k", "1"});
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("rule      bound: each element within what its own arithmetic "
                                    "may lose"));
  EXPECT_THAT(output.out, HasSubstr("u = 2^-8 (bf16; 8 times fp16's"));
  EXPECT_THAT(output.out, HasSubstr("2 of 2,048 elements beyond their bound, all in rows 63, 127 "
                                    "(period 64)"));
  EXPECT_THAT(output.out, HasSubstr("times its bound"));
  EXPECT_THAT(output.out, HasSubstr("probe     exact-sparse passed"));
  EXPECT_THAT(output.out, HasSubstr("input     a  1,024 elements: min -4, max 4.5"));
  EXPECT_THAT(output.out, HasSubstr("reads as  the last row of each tile"));
  EXPECT_THAT(output.out, HasSubstr("next      look at tile edges"));
  EXPECT_THAT(output.out, HasSubstr("repro     assay run gemm"));
}

TEST(Explain, WithoutACaseTakesWhatDidNotPass) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_INCONCLUSIVE),
                     Diagnosed(2)};
  const Output output = Assay(service, {"explain", "jobs/4f2k"});
  EXPECT_EQ(output.code, 0);
  // The worst first.
  EXPECT_LT(output.out.find("#2"), output.out.find("#1"));
  EXPECT_THAT(output.out, Not(HasSubstr("#0")));
}

TEST(Explain, SaysOfAPassHowCloseItCame) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const Output output = Assay(service, {"explain", "4f2k"});
  EXPECT_THAT(output.out, HasSubstr("nothing failed"));
  EXPECT_THAT(output.out, HasSubstr("margin    the largest error is 0.92 of its element's bound"));
  EXPECT_THAT(output.out, HasSubstr("2,048 elements compared"));
  service.results[0].mutable_stats()->set_count(1);
  EXPECT_THAT(Assay(service, {"explain", "4f2k"}).out, HasSubstr("1 element compared"));
}

TEST(Explain, TellsValuesApartThatAreNear) {
  v1::CaseResult result = Diagnosed(0);
  v1::Mismatch& worst = *result.mutable_stats()->mutable_worst();
  worst.set_actual(20.91602);
  worst.set_expected(20.91607);
  FakeService service;
  service.results = {result};
  EXPECT_THAT(Assay(service, {"explain", "4f2k"}).out, HasSubstr("got 20.916 ("));
  EXPECT_THAT(Assay(service, {"explain", "4f2k"}).out, HasSubstr("expected 20.9161 ±"));
}

TEST(Explain, HasJson) {
  FakeService service;
  service.results = {Diagnosed(0)};
  const auto json =
      nlohmann::json::parse(Assay(service, {"explain", "4f2k", "--format", "json"}).out);
  EXPECT_EQ(json["schema"], "assay.explain/v1");
  EXPECT_EQ(json["job"], "jobs/4f2k");
  const auto& one = json["cases"][0];
  EXPECT_EQ(one["reads_as"], "the last row of each tile of 64 rows is wrong");
  EXPECT_EQ(one["next_step"], "look at tile edges");
  EXPECT_EQ(one["pattern_of_errors"], "all in rows 63, 127 (period 64)");
  EXPECT_EQ(one["inputs"][0]["rms"], 1.0);
  EXPECT_EQ(one["explanation"][0]["label"], "rule");
}

TEST(Explain, AnUnknownCaseIsAUsageError) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  EXPECT_EQ(Assay(service, {"explain", "4f2k", "7"}).code, 2);
  EXPECT_EQ(Assay(service, {"explain", "nope"}).code, 2);
}

TEST(Table, TellsTheCauseUnderAFailedCase) {
  FakeService service;
  service.results = {Diagnosed(0)};
  service.verdict = v1::VERDICT_FAILED;
  const Output output = RunGemm(service);
  EXPECT_THAT(output.out, HasSubstr("beyond their bound, all in rows 63, 127 (period 64)"));
  EXPECT_THAT(output.out, HasSubstr("reads as  the last row"));
  EXPECT_THAT(output.out, HasSubstr("next      look at"));
}

TEST(Slices, RunTheCaseAgainAndPrintAGrid) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), Diagnosed(1)};
  *service.results[0].add_slices() = MakeSlice();
  const Output output =
      Assay(service, {"show", "4f2k", "1", "--slice", "actual[2:4,6:9]", "--slice", "a[0,:]"});
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("actual[2:4,6:9]\n"
                                    "       6    7    8\n"
                                    "  2    0  1.5    3\n"
                                    "  3  4.5    6  7.5\n"));
  ASSERT_EQ(service.created().size(), 1u);
  const v1::JobSpec job = service.created()[0].spec();
  EXPECT_EQ(job.device(), "cpu:0");
  ASSERT_EQ(job.cases().cases_size(), 1);
  const v1::CaseSpec& spec = job.cases().cases(0);
  EXPECT_THAT(spec.slices(), ElementsAre("actual[2:4,6:9]", "a[0,:]"));
  EXPECT_EQ(spec.seed(), 7u);
  EXPECT_EQ(spec.provider(), "onednn");
  EXPECT_THAT(Assay(service, {"show", "4f2k", "1", "--slice", "actual", "--bits"}).out,
              HasSubstr("0x0003  0x0004  0x0005"));
}

TEST(Slices, NeedACase) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  EXPECT_EQ(Assay(service, {"show", "4f2k", "0", "--slice", ""}).code, 2);
  EXPECT_EQ(Assay(service, {"show", "4f2k", "0", "--slice", "actual", "--format", "csv"}).code, 2);
  EXPECT_EQ(Assay(service, {"show", "4f2k", "--slice", "actual"}).code, 2);
  EXPECT_EQ(service.created().size(), 0u);
  // And elements to show.
  EXPECT_EQ(Assay(service, {"show", "4f2k", "0", "--slice", "actual"}).code, 4);
}

// Commas within brackets belong to the slice; slices are no axis of a sweep.
TEST(Slices, GoWithARunAsTheyAreWritten) {
  EXPECT_THAT(SplitList("a[0,1], b ,c[:,2]"), ElementsAre("a[0,1]", "b", "c[:,2]"));
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  *service.results[0].add_slices() = MakeSlice();
  const Output output = RunGemm(
      service, {"--slice", "actual[0:2,0:2],b[0,:]", "--slice", "bound[1]", "--seed", "1,2"});
  EXPECT_EQ(output.code, 0) << output.err;
  const v1::JobSpec job = service.created()[0].spec();
  ASSERT_EQ(job.cases().cases_size(), 2);
  for (const v1::CaseSpec& spec : job.cases().cases()) {
    EXPECT_THAT(spec.slices(), ElementsAre("actual[0:2,0:2]", "b[0,:]", "bound[1]"));
  }
  EXPECT_THAT(output.out, HasSubstr("    actual[2:4,6:9]\n"));
}

TEST(Grid, BreaksWideSlicesAndNamesTables) {
  v1::Slice slice;
  slice.set_name("actual");
  for (const int extent : {2, 1, 10}) slice.add_shape(extent);
  for (const int at : {3, 0, 0}) slice.add_begin(at);
  for (int i = 0; i < 20; ++i) slice.add_values(i);
  const std::string grid = SliceGrid(slice, false, 24);
  EXPECT_THAT(grid, HasSubstr("[3,:,:]"));
  EXPECT_THAT(grid, HasSubstr("[4,:,:]"));
  EXPECT_THAT(grid, HasSubstr("      0   1   2   3   4\n  0   0   1   2   3   4\n"));
  EXPECT_THAT(grid, HasSubstr("      5   6   7   8   9\n  0   5   6   7   8   9\n"));
}

}  // namespace
}  // namespace assay::client::testing
