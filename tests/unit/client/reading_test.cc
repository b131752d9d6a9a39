// How times and ceilings are put to a person.
#include "client/report/reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "client/cli/ceilings.h"
#include "client/report/row.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"
#include "tests/unit/client/fake_service.h"

namespace assay::client::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::CaseResult Timed(double efficiency, const char* roof) {
  v1::CaseResult result = MakeResult(0, v1::VERDICT_PASSED);
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_samples(20);
  bench.set_median_seconds(1e-3);
  bench.set_efficiency(efficiency);
  bench.set_roof(roof);
  return result;
}

TEST(Readings, AreTheLabs) {
  const auto word = [](double efficiency) {
    return ReadingWord(ReadingOf(Timed(efficiency, "compute")));
  };
  EXPECT_EQ(word(0.9), "efficient");
  EXPECT_EQ(word(0.6), "efficient");
  EXPECT_EQ(word(0.59), "between");
  EXPECT_EQ(word(0.4), "between");
  EXPECT_EQ(word(0.39), "look closer");
  EXPECT_THAT(RowOf(Timed(0.39, "compute")).note, HasSubstr("look closer: below 40 %"));
  EXPECT_THAT(RowOf(Timed(0.7, "compute")).note, HasSubstr("efficient"));
  EXPECT_THAT(RowOf(Timed(0.5, "compute")).note, Not(HasSubstr("efficient")));
}

TEST(Readings, ANoisyTimeSaysWhatDisturbedIt) {
  v1::CaseResult noisy = Timed(0.5, "compute");
  noisy.mutable_bench()->set_noise(0.01);
  noisy.mutable_bench()->set_noisy(true);
  EXPECT_EQ(RowOf(noisy).note, "noisy: ± 1 %");
  noisy.mutable_bench()->mutable_conditions()->set_waiting_ratio(0.3);
  EXPECT_EQ(RowOf(noisy).note, "noisy: ± 1 %, waited for processors");
}

TEST(Readings, ASoftmaxDoesWellFromThirtyPercentOfTheMemory) {
  v1::CaseResult softmax = Timed(0.3, "memory");
  softmax.mutable_spec()->mutable_softmax()->set_rows(1);
  EXPECT_EQ(ReadingOf(softmax), SpeedReading::kEfficient);
  softmax.mutable_bench()->set_efficiency(0.29);
  EXPECT_EQ(ReadingOf(softmax), SpeedReading::kLookCloser);
  EXPECT_THAT(RowOf(softmax).note, HasSubstr("look closer: below 30 %"));
  softmax.mutable_bench()->set_roof("compute");
  softmax.mutable_bench()->set_efficiency(0.35);
  EXPECT_EQ(ReadingOf(softmax), SpeedReading::kLookCloser) << "of the memory alone";
}

TEST(Readings, NothingIsReadIntoWhatWasNotTimed) {
  for (const auto& change : std::vector<std::function<void(v1::CaseResult&)>>{
           [](v1::CaseResult& r) { r.mutable_bench()->set_samples(1); },
           [](v1::CaseResult& r) { r.mutable_bench()->clear_efficiency(); },
           [](v1::CaseResult& r) { r.mutable_bench()->set_median_seconds(1e-5); },
           [](v1::CaseResult& r) { r.set_verdict(v1::VERDICT_FAILED); }}) {
    v1::CaseResult result = Timed(0.1, "compute");
    change(result);
    EXPECT_EQ(ReadingOf(result), SpeedReading::kNone);
    EXPECT_FALSE(LookCloser(result));
  }
}

TEST(Readings, JsonHasWorkBytesAndIntensity) {
  FakeService service;
  v1::CaseResult result = Timed(0.7, "compute");
  result.mutable_bench()->set_flops_per_second(65536e3 / 3 * 3);
  result.mutable_bench()->set_bytes_per_second(10240e3 / 3 * 3);
  service.results = {result};
  const auto bench = nlohmann::json::parse(
      Assay(service, {"run", "gemm", "--m", "4", "--format", "json"}).out)["tests"][0]["bench"];
  EXPECT_EQ(bench["flops"], 65536.0);
  EXPECT_EQ(bench["bytes"], 10240.0);
  EXPECT_EQ(bench["intensity"], 6.4);
  EXPECT_EQ(bench["reading"], "efficient");
  service.results[0].mutable_bench()->clear_median_seconds();
  const auto untimed = nlohmann::json::parse(
      Assay(service, {"run", "gemm", "--m", "4", "--format", "json"}).out)["tests"][0]["bench"];
  for (const char* key : {"flops", "bytes", "intensity", "reading"}) {
    EXPECT_FALSE(untimed.contains(key)) << key;
  }
}

v1::Device Card() {
  v1::Device device;
  device.set_id("cuda:0");
  device.set_state(v1::DEVICE_STATE_READY);
  v1::Ceiling* copy = device.add_ceilings();
  copy->set_kind(v1::CEILING_KIND_COPY);
  copy->set_bytes_per_second(4.32e12);
  copy->set_data_sheet_per_second(4.8e12);
  copy->set_data_sheet_source("the sheet");
  copy->set_noise(0.004);
  copy->set_suspect(true);
  v1::Ceiling* read = device.add_ceilings();
  read->set_kind(v1::CEILING_KIND_READ);
  read->set_bytes_per_second(4.4e12);
  v1::Ceiling* vector = device.add_ceilings();
  vector->set_kind(v1::CEILING_KIND_FMA);
  vector->set_dtype(v1::DTYPE_FP16);
  vector->set_flops_per_second(120e12);
  v1::Ceiling* matrix = device.add_ceilings();
  matrix->set_kind(v1::CEILING_KIND_MATRIX);
  matrix->set_dtype(v1::DTYPE_FP16);
  matrix->set_flops_per_second(800e12);
  matrix->set_data_sheet_per_second(1000e12);
  return device;
}

TEST(CeilingTables, MeasuredBesideTheDataSheet) {
  const auto rows = CeilingRows(Card());
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_THAT(
      rows[0],
      ElementsAre("cuda:0", "copy", "–", "4.32 TB/s", "0.4 %", "4.80 TB/s", "90 %",
                  "the sheet; suspect: a kernel was faster; asked for again, it is measured "
                  "anew"));
  EXPECT_THAT(rows[1], ElementsAre("cuda:0", "read", "–", "4.40 TB/s", "–", "–", "–", ""));
  EXPECT_THAT(rows[3], ElementsAre("cuda:0", "matrix", "fp16", "800 TFLOP/s", "–", "1.00 PFLOP/s",
                                   "80 %", ""));
  EXPECT_THAT(CeilingWords(Card()), ElementsAre("copy 4.32 TB/s", "fp16 800 TFLOP/s"))
      << "one a format";
}

TEST(CeilingTables, ADeviceWithoutAnySaysWhy) {
  v1::Device device;
  device.set_id("hip:0");
  device.set_unavailable_reason("no driver");
  EXPECT_EQ(CeilingRows(device)[0].back(), "no driver");
  device.clear_unavailable_reason();
  device.set_state(v1::DEVICE_STATE_BUSY);
  EXPECT_THAT(CeilingRows(device)[0].back(), HasSubstr("busy"));
}

TEST(CeilingTables, TheCommandShowsThem) {
  FakeService service;
  const Output table = Assay(service, {"devices", "--ceilings"});
  EXPECT_THAT(table.out, HasSubstr("MEASURED"));
  EXPECT_THAT(table.out, HasSubstr("1.03 TFLOP/s"));
  EXPECT_THAT(table.out, HasSubstr("no driver"));
  const auto json =
      nlohmann::json::parse(Assay(service, {"devices", "--ceilings", "--format", "json"}).out);
  const auto& ceiling = json["devices"][0]["ceilings"][0];
  EXPECT_EQ(ceiling["flops_per_second"], 1.03e12);
  EXPECT_FALSE(ceiling.contains("data_sheet_per_second")) << "absent where it is not known";
}

}  // namespace
}  // namespace assay::client::testing
