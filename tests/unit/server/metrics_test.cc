// What the daemon counts, as a scraper reads it.
#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/text/cat.h"
#include "tests/unit/server/metrics_fixture.h"

namespace assay::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(MetricsTest, CountersOfKnownKernelsBeginAtZero) {
  ExpectLine(std::string("assay_cases_total{") + kBf16 + R"(,verdict="FAILED"} 0)");
  ExpectLine(std::string("assay_guard_violations_total{") + kBf16 + "} 0");
  ExpectLine(R"(assay_worker_restarts_total{device="cpu:0",reason="crash"} 0)");
  ExpectLine(R"(assay_jobs_total{verdict="FAILED"} 0)");
  ExpectLine(R"(assay_rpc_requests_total{code="OK",method="CreateJob"} 0)");
  ExpectLine(R"(assay_rpc_requests_total{code="RESOURCE_EXHAUSTED",method="CreateJob"} 0)");
  ExpectLine(R"(assay_device_quarantined{device="cpu:0"} 0)");
  ExpectLine(R"(assay_error_bound_exceeded_total{device="cpu:0",op="softmax"} 0)");
  ExpectLine(R"(assay_error_bound_exceeded_total{device="cpu:0",op="other"} 0)");
  ExpectLine(R"(assay_build_info{backends="cpu",version="1.2.3"} 1)");
  ExpectLine(R"(assay_device_info{device="cpu:0",model_name="A \"quoted\" model"} 1)");
}

TEST_F(MetricsTest, MeasuresOfContainmentAreOneOrNought) {
  v1::Device device = Cpu();
  for (const char* name : {"landlock", "cgroup"}) {
    v1::ContainmentMeasure& measure = *device.add_containment();
    measure.set_measure(name);
    measure.set_applied(std::string(name) == "landlock");
  }
  metrics_->DeviceChanged(device);
  ExpectLine(R"(assay_device_containment_applied{device="cpu:0",measure="landlock"} 1)");
  ExpectLine(R"(assay_device_containment_applied{device="cpu:0",measure="cgroup"} 0)");
}

TEST_F(MetricsTest, WhatIsUnknownIsLeftOut) {
  for (const char* family : {"assay_kernel_flops_per_second{", "assay_error_bound_ratio_max{",
                             "assay_ceiling_bytes_per_second{", "assay_selftest_detected_ratio{"}) {
    EXPECT_THAT(Text(), Not(HasSubstr(family)));
  }
}

TEST_F(MetricsTest, AFailureIsCountedOnceAndByItsKernel) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_FAILED);
  result.mutable_duration()->set_nanos(20'000'000);
  result.mutable_stats()->set_rho(7.5);
  result.mutable_stats()->set_unwritten(12);
  result.mutable_stats()->set_guard_hits(64);
  result.set_deterministic(false);
  v1::Provenance* nan = result.add_provenance();
  nan->set_kind("nan");
  nan->set_origin("kernel");
  nan->set_count(3);
  metrics_->CaseFinished(result);
  ExpectLine(std::string("assay_cases_total{") + kBf16 + R"(,verdict="FAILED"} 1)");
  ExpectLine(
      R"(assay_nan_total{device="cpu:0",dtype="bf16",expected="false",op="gemm",origin="kernel",provider="onednn"} 3)");
  ExpectLine(std::string("assay_unwritten_elements_total{") + kBf16 + "} 12");
  ExpectLine(std::string("assay_guard_violations_total{") + kBf16 + "} 1");
  ExpectLine(std::string("assay_nondeterministic_total{") + kBf16 + "} 1");
  ExpectLine(std::string("assay_error_bound_ratio_max{") + kBf16 + "} 7.5");
  ExpectLine(R"(assay_error_bound_ratio_bucket{device="cpu:0",op="gemm",le="2"} 0)");
  ExpectLine(R"(assay_error_bound_ratio_bucket{device="cpu:0",op="gemm",le="10"} 1)");
  ExpectLine(R"(assay_case_duration_seconds_sum{op="gemm"} 0.02)");
}

TEST_F(MetricsTest, ARatioThatIsNotFiniteSpoilsNoSum) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_FAILED);
  result.mutable_stats()->set_rho(std::numeric_limits<double>::quiet_NaN());
  metrics_->CaseFinished(result);
  result.mutable_stats()->set_rho(0.5);
  metrics_->CaseFinished(result);
  ExpectLine(std::string("assay_error_bound_ratio_max{") + kBf16 + "} +Inf");
  EXPECT_THAT(Text(),
              Not(HasSubstr("assay_error_bound_ratio_sum{device=\"cpu:0\",op=\"gemm\"} Nan")));
  EXPECT_THAT(Text(),
              Not(HasSubstr("assay_error_bound_ratio_sum{device=\"cpu:0\",op=\"gemm\"} +Inf")));
}

TEST_F(MetricsTest, PrecisionIsTheLowestOfAllCases) {
  const std::string family = "assay_kernel_precision_binary_digits{";
  v1::CaseResult result = Result("onednn", v1::VERDICT_PASSED);
  metrics_->CaseFinished(result);
  result.mutable_precision()->set_declared_bits(24);
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), Not(HasSubstr(family))) << "not measured, and not 0";
  result.mutable_precision()->set_bits(24);
  metrics_->CaseFinished(result);
  ExpectLine(family + kBf16 + "} 24");
  result.mutable_precision()->set_bits(11.5);
  result.set_verdict(v1::VERDICT_FAILED);
  metrics_->CaseFinished(result);
  ExpectLine(family + kBf16 + "} 11.5");
  result.mutable_precision()->set_bits(std::numeric_limits<double>::quiet_NaN());
  metrics_->CaseFinished(result);
  result.mutable_precision()->set_bits(24);
  metrics_->CaseFinished(result);
  ExpectLine(family + kBf16 + "} 11.5");
  result.mutable_precision()->set_bits(3);
  result.mutable_spec()->set_provider("planted/nan");
  metrics_->CaseFinished(result);
  ExpectLine(family + kBf16 + "} 11.5");
  EXPECT_EQ(Text().find("planted/"), std::string::npos);
  // Kernels that share a name share the lowest.
  result.mutable_spec()->set_provider("made-up");
  metrics_->CaseFinished(result);
  ExpectLine(family + R"(device="cpu:0",dtype="other",op="other",provider="other"} 3)");
}

TEST_F(MetricsTest, SpeedIsThatOfRightBenchmarksOnly) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_PASSED);
  result.mutable_spec()->set_mode(v1::MODE_BENCHMARK);
  result.mutable_bench()->set_samples(1);
  result.mutable_bench()->set_flops_per_second(1e9);
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_kernel_flops_per_second{"))) << "one cold launch";
  result.mutable_bench()->set_samples(10);
  result.set_verdict(v1::VERDICT_FAILED);
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_kernel_flops_per_second{"))) << "of a wrong kernel";
  result.set_verdict(v1::VERDICT_PASSED);
  result.mutable_spec()->set_mode(v1::MODE_VALIDATE);
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_kernel_flops_per_second{"))) << "timed in passing";
  result.mutable_spec()->set_mode(v1::MODE_BOTH);
  result.mutable_bench()->set_efficiency(0.25);
  result.mutable_bench()->set_roof("compute");
  metrics_->CaseFinished(result);
  ExpectLine(std::string("assay_kernel_flops_per_second{") + kBf16 + "} 1000000000");
  ExpectLine(
      R"(assay_kernel_efficiency_ratio{device="cpu:0",dtype="bf16",op="gemm",provider="onednn",roof="compute"} 0.25)");
}

TEST_F(MetricsTest, PlantedKernelsCountNowhereAndSelftestsByTheirScore) {
  metrics_->CaseFinished(Result("planted/nan", v1::VERDICT_FAILED));
  metrics_->CaseFinished(Result("planted/correct", v1::VERDICT_FAILED));
  metrics_->SelftestFinished({});
  ExpectLine(R"(assay_selftest_false_alarms_total{device="cpu:0"} 0)");
  EXPECT_THAT(Text(), Not(HasSubstr("assay_selftest_detected_ratio{"))) << "not known yet";
  v1::SelftestReport report;
  for (const bool caught : {true, true, true, false}) {
    v1::SelftestRow& row = *report.add_rows();
    row.set_device("cpu:0");
    row.set_caught(caught);
  }
  v1::SelftestCorrect& correct = *report.add_correct();
  correct.set_device("cpu:0");
  correct.set_runs(10);
  correct.set_false_alarms(2);
  metrics_->SelftestFinished(report);
  ExpectLine(R"(assay_selftest_detected_ratio{device="cpu:0"} 0.75)");
  ExpectLine(R"(assay_selftest_false_alarms_total{device="cpu:0"} 2)");
  metrics_->SelftestFinished(report);
  ExpectLine(R"(assay_selftest_detected_ratio{device="cpu:0"} 0.75)");
  ExpectLine(R"(assay_selftest_false_alarms_total{device="cpu:0"} 4)");
  EXPECT_THAT(Text(), Not(HasSubstr("planted/")));
  EXPECT_THAT(Text(), Not(HasSubstr(R"(verdict="FAILED"} 1)")));
}

TEST_F(MetricsTest, CheatsCountByTheirScoreAlone) {
  metrics_->CaseFinished(Result("cheat/zeros", v1::VERDICT_PASSED));
  metrics_->CaseFinished(Result("cheat/zeros-twin", v1::VERDICT_FAILED));
  EXPECT_THAT(Text(), Not(HasSubstr("assay_selftest_cheats_stopped_ratio{"))) << "not known yet";
  v1::SelftestReport report;
  for (const bool stopped : {true, true, false, true}) {
    v1::CheatRow& row = *report.add_cheats();
    row.set_device("cpu:0");
    row.set_stopped(stopped);
    row.set_twin(v1::VERDICT_PASSED);
  }
  report.mutable_cheats(0)->set_twin(v1::VERDICT_INCONCLUSIVE);
  metrics_->SelftestFinished(report);
  ExpectLine(R"(assay_selftest_cheats_stopped_ratio{device="cpu:0"} 0.5)");
  ExpectLine(R"(assay_selftest_false_alarms_total{device="cpu:0"} 0)");
  EXPECT_THAT(Text(), Not(HasSubstr("assay_selftest_detected_ratio{")));
  EXPECT_THAT(Text(), Not(HasSubstr("cheat/")));
  EXPECT_THAT(Text(), Not(HasSubstr(R"(provider="user")")));
}

TEST_F(MetricsTest, NamesAClientCouldChooseBecomeOther) {
  v1::CaseResult result = Result("made-up", v1::VERDICT_PASSED);
  metrics_->CaseFinished(result);
  result.set_device("nowhere");
  metrics_->CaseFinished(result);
  metrics_->RpcFinished("Nonsense", "UNIMPLEMENTED", 0.1);
  metrics_->WorkerRestarted("cpu:0", "boredom");
  EXPECT_THAT(Text(), Not(HasSubstr("made-up")));
  EXPECT_THAT(Text(), Not(HasSubstr("nowhere")));
  EXPECT_THAT(Text(), Not(HasSubstr("Nonsense")));
  ExpectLine(
      R"(assay_cases_total{device="cpu:0",dtype="other",op="other",provider="other",verdict="PASSED"} 1)");
  ExpectLine(R"(assay_worker_restarts_total{device="cpu:0",reason="other"} 1)");
}

TEST_F(MetricsTest, WhatSharesANameStartsAtZeroToo) {
  ExpectLine(
      R"(assay_cases_total{device="cpu:0",dtype="other",op="other",provider="other",verdict="FAILED"} 0)");
  ExpectLine(
      R"(assay_guard_violations_total{device="cpu:0",dtype="other",op="other",provider="other"} 0)");
  ExpectLine(R"(assay_worker_restarts_total{device="cpu:0",reason="other"} 0)");
}

TEST_F(MetricsTest, UnsupportedIsCountedUnderItsOwnNames) {
  v1::CaseResult result = Result("openblas", v1::VERDICT_UNSUPPORTED);
  result.mutable_spec()->set_dtype(v1::DTYPE_INT8);
  metrics_->CaseFinished(result);
  ExpectLine(
      R"(assay_cases_total{device="cpu:0",dtype="int8",op="gemm",provider="openblas",verdict="UNSUPPORTED"} 1)");
  result.mutable_spec()->set_provider("made-up");
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), Not(HasSubstr("made-up")));
}

TEST_F(MetricsTest, TelemetryIsShownWhileItIsKnown) {
  v1::Device device = Cpu();
  *device.mutable_telemetry() = FullTelemetry();
  (*device.mutable_properties())["gpu"] = "3";
  (*device.mutable_properties())["UUID"] = "GPU-1";
  (*device.mutable_properties())["driver_version"] = "580.65";
  metrics_->TelemetryChanged(device);
  ExpectLine(R"(assay_device_temperature_celsius{device="cpu:0"} 61)");
  ExpectLine(R"(assay_device_power_watts{device="cpu:0"} 412.5)");
  ExpectLine(R"(assay_device_clock_hertz{clock="core",device="cpu:0"} 1000000000)");
  ExpectLine(R"(assay_device_throttle_seconds_total{device="cpu:0",reason="power"} 1.5)");
  ExpectLine(R"(assay_device_throttle_seconds_total{device="cpu:0",reason="other"} 3)");
  ExpectLine(R"(assay_device_ecc_errors_total{device="cpu:0",type="corrected"} 2)");
  ExpectLine(R"(assay_device_faults_total{code="xid-79",device="cpu:0"} 1)");
  ExpectLine(R"(assay_device_faults_total{code="other",device="cpu:0"} 180)");
  ExpectLine(
      R"(assay_device_info{UUID="GPU-1",device="cpu:0",driver_version="580.65",gpu="3",model_name="A \"quoted\" model"} 1)");
  EXPECT_THAT(Text(), Not(HasSubstr("assay_device_info{device=\"cpu:0\",model")));

  device.mutable_telemetry()->set_temperature_celsius(62);
  device.mutable_telemetry()->clear_power_watts();
  (*device.mutable_telemetry()->mutable_throttle_seconds())["power"] = 4;
  device.mutable_telemetry()->mutable_ecc_errors()->erase("corrected");
  metrics_->TelemetryChanged(device);
  ExpectLine(R"(assay_device_temperature_celsius{device="cpu:0"} 62)");
  ExpectLine(R"(assay_device_throttle_seconds_total{device="cpu:0",reason="power"} 4)");
  EXPECT_THAT(Text(), Not(HasSubstr("assay_device_power_watts{")));
  ExpectLine(R"(assay_device_ecc_errors_total{device="cpu:0",type="corrected"} 2)");

  device.clear_telemetry();
  device.mutable_telemetry()->set_unavailable_reason("gone");
  metrics_->TelemetryChanged(device);
  for (const char* family : {"temperature", "power", "clock", "throttle"}) {
    EXPECT_THAT(Text(), Not(HasSubstr(std::string("assay_device_") + family)));
  }
  // A device that is gone has said so by a fault.
  ExpectLine(R"(assay_device_faults_total{code="xid-79",device="cpu:0"} 1)");
  (*device.mutable_telemetry()->mutable_faults())["xid-79"] = 2;
  metrics_->TelemetryChanged(device);
  ExpectLine(R"(assay_device_faults_total{code="xid-79",device="cpu:0"} 2)");
  // Back again: the whole sum, not what came since.
  (*device.mutable_telemetry()->mutable_throttle_seconds())["power"] = 5;
  metrics_->TelemetryChanged(device);
  ExpectLine(R"(assay_device_throttle_seconds_total{device="cpu:0",reason="power"} 5)");
  (*device.mutable_telemetry()->mutable_throttle_seconds())["power"] = 4;
  metrics_->TelemetryChanged(device);
  ExpectLine(R"(assay_device_throttle_seconds_total{device="cpu:0",reason="power"} 5)");
  device.set_id("nowhere");
  metrics_->TelemetryChanged(device);
  EXPECT_THAT(Text(), Not(HasSubstr("nowhere")));
}

TEST_F(MetricsTest, TheNewestQualificationOfEachLevel) {
  metrics_->QualificationFinished("cpu:0", "quick", v1::VERDICT_PASSED, 12.5, 1.7e9);
  metrics_->QualificationFinished("cpu:0", "3", v1::VERDICT_PASSED, 100, 1.7e9);
  metrics_->QualificationFinished("cpu:0", "nightly", v1::VERDICT_FAILED, 200, 1.7e9 + 1);
  metrics_->QualificationFinished("cpu:0", "my own", v1::VERDICT_PASSED, 1, 1.7e9);
  ExpectLine(R"(assay_qualification_passed{device="cpu:0",suite="quick"} 1)");
  ExpectLine(R"(assay_qualification_duration_seconds{device="cpu:0",suite="quick"} 12.5)");
  ExpectLine(R"(assay_qualification_passed{device="cpu:0",suite="nightly"} 0)");
  ExpectLine(R"(assay_qualification_duration_seconds{device="cpu:0",suite="nightly"} 200)");
  ExpectLine(R"(assay_qualification_passed{device="cpu:0",suite="other"} 1)");
  EXPECT_THAT(
      Text(),
      HasSubstr(
          R"(assay_qualification_last_completion_timestamp_seconds{device="cpu:0",suite="nightly"} 1700000001)"));
  EXPECT_EQ(QualificationLevel("4"), "extended");
  EXPECT_EQ(QualificationLevel("smoke"), "");
}

TEST_F(MetricsTest, AQualificationThatSaysNothingForOrAgainstIsNoVerdict) {
  metrics_->QualificationFinished("cpu:0", "nightly", v1::VERDICT_UNSPECIFIED, 5, 1.7e9);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_qualification_passed{")));
  metrics_->QualificationFinished("cpu:0", "nightly", v1::VERDICT_PASSED, 5, 1.7e9);
  metrics_->QualificationFinished("cpu:0", "nightly", v1::VERDICT_UNSPECIFIED, 7, 1.7e9 + 1);
  ExpectLine(R"(assay_qualification_passed{device="cpu:0",suite="nightly"} 1)");
  ExpectLine(R"(assay_qualification_duration_seconds{device="cpu:0",suite="nightly"} 7)");
}

// A night that is too noisy to tell anything clears nobody, and accuses nobody.
TEST_F(MetricsTest, AQualificationThatFailedHasFailedUntilOnePasses) {
  const auto after = [this](v1::Verdict verdict, int passed, int failed) {
    metrics_->QualificationFinished("cpu:0", "nightly", verdict, 5, 1.7e9);
    const std::string labels = R"({device="cpu:0",suite="nightly"} )";
    ExpectLine(Cat("assay_qualification_passed", labels, passed));
    ExpectLine(Cat("assay_qualification_failed", labels, failed));
  };
  after(v1::VERDICT_INCONCLUSIVE, 0, 0);
  after(v1::VERDICT_PASSED, 1, 0);
  after(v1::VERDICT_FAILED, 0, 1);
  after(v1::VERDICT_INCONCLUSIVE, 0, 1);
  after(v1::VERDICT_PASSED, 1, 0);
  after(v1::VERDICT_INCONCLUSIVE, 0, 0);
}

// Feeds everything once, so that every family is in the text.
void FeedAll(Metrics& metrics) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_PASSED);
  result.mutable_spec()->set_mode(v1::MODE_BENCHMARK);
  result.mutable_stats()->set_rho(0.5);
  result.mutable_precision()->set_bits(24);
  result.mutable_bench()->set_samples(5);
  result.mutable_bench()->set_flops_per_second(1);
  result.mutable_bench()->set_bytes_per_second(1);
  result.mutable_bench()->set_efficiency(0.5);
  result.mutable_bench()->set_roof("memory");
  metrics.CaseFinished(result);
  metrics.CaseFinished(Result("planted/nan", v1::VERDICT_FAILED));
  v1::Device device = Cpu();
  device.add_ceilings()->set_bytes_per_second(1);
  v1::Ceiling* flops = device.add_ceilings();
  flops->set_dtype(v1::DTYPE_BF16);
  flops->set_flops_per_second(1);
  metrics.DeviceChanged(device);
  *device.mutable_telemetry() = FullTelemetry();
  metrics.TelemetryChanged(device);
  metrics.QualificationFinished("cpu:0", "quick", v1::VERDICT_PASSED, 1, 1);
  SuiteTally tally;
  tally.Add(result);
  metrics.SuiteFinished("quick", "1", tally);
  metrics.RpcFinished("CreateJob", "OK", 0.001);
}

TEST_F(MetricsTest, PromtoolFindsNothing) {
  if (std::system("command -v promtool >/dev/null") != 0) GTEST_SKIP() << "no promtool here";
  FeedAll(*metrics_);
  const std::string path = ::testing::TempDir() + "metrics_test.prom";
  std::ofstream(path) << Text();
  std::FILE* pipe = popen(("promtool check metrics <" + path + " 2>&1").c_str(), "r");
  std::string said;
  char buffer[4096];
  while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe)) said.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0) << said;
  EXPECT_EQ(said, "");
}

TEST_F(MetricsTest, RefusalsAreCountedByTheirLimitFromZero) {
  for (const Limit limit : Limits()) {
    EXPECT_THAT(Text(), HasSubstr("assay_limit_refusals_total{limit=\"" +
                                  std::string(Setting(limit)) + "\"} 0\n"));
  }
  metrics_->LimitReached(Limit::kClientWatchers);
  EXPECT_THAT(Text(), HasSubstr("assay_limit_refusals_total{limit=\"client-max-watchers\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("assay_limit_refusals_total{limit=\"max-watchers\"} 0\n"));
}

}  // namespace
}  // namespace assay::server
