// What the daemon counts, as a scraper reads it.
#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"
#include "server/auth/credentials.h"
#include "server/metrics/http_server.h"
#include "server/metrics/kernel_series.h"
#include "tests/unit/server/metrics_fixture.h"
#include "tests/unit/server/test_certificates.h"

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

// Series of a device in the text.
int SeriesOf(const std::string& text, const std::string& device) {
  const std::string label = "device=\"" + device + "\"";
  int series = 0;
  for (std::size_t at = text.find(label); at != text.npos; at = text.find(label, at + 1)) {
    ++series;
  }
  return series;
}

// Those of the device's kernels, without the runs of suites.
int KernelSeriesOf(const std::string& text, const std::string& device) {
  const std::string label = "device=\"" + device + "\"";
  int series = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    series += absl::StrContains(line, label) && absl::StrContains(line, "provider=") &&
              !absl::StrContains(line, "suite=");
  }
  return series;
}

// A result that has all that there is to count.
v1::CaseResult Everything(const std::string& device, const v1::CaseSpec& spec,
                          v1::Verdict verdict) {
  v1::CaseResult result;
  result.set_device(device);
  *result.mutable_spec() = spec;
  result.set_verdict(verdict);
  result.mutable_stats()->set_rho(0.1);
  result.mutable_precision()->set_bits(24);
  result.mutable_stats()->set_unwritten(1);
  result.mutable_stats()->set_guard_hits(1);
  result.set_deterministic(false);
  for (const char* kind : {"nan", "inf"}) {
    for (const char* origin : {"input", "kernel", "unwritten"}) {
      // No poison is an infinity.
      if (kind == std::string("inf") && origin == std::string("unwritten")) continue;
      for (const bool expected : {false, true}) {
        v1::Provenance* p = result.add_provenance();
        p->set_kind(kind);
        p->set_origin(origin);
        p->set_expected(expected && origin != std::string("unwritten"));
        p->set_count(1);
      }
    }
  }
  result.mutable_spec()->set_mode(v1::MODE_BOTH);
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_samples(10);
  bench.set_flops_per_second(1e9);
  bench.set_bytes_per_second(1e9);
  bench.set_efficiency(0.5);
  bench.set_roof(verdict == v1::VERDICT_PASSED ? "compute" : "memory");
  bench.set_ceiling_flops_per_second(1e9);
  bench.set_ceiling_bytes_per_second(1e9);
  return result;
}

// Telemetry with everything that is known, and what is not.
v1::Telemetry FullTelemetry() {
  v1::Telemetry t;
  t.set_temperature_celsius(61);
  t.set_power_watts(412.5);
  for (const char* clock : {"core", "memory", "made-up"}) (*t.mutable_clock_hertz())[clock] = 1e9;
  for (const char* reason : {"power", "thermal", "sync_boost", "board_limit", "reliability",
                             "hw_slowdown", "power_brake", "moon", "tide"}) {
    (*t.mutable_throttle_seconds())[reason] = 1.5;
  }
  for (const char* type : {"corrected", "uncorrected"}) (*t.mutable_ecc_errors())[type] = 2;
  for (int xid = 0; xid < 200; ++xid) (*t.mutable_faults())["xid-" + std::to_string(xid)] = 1;
  return t;
}

v1::CaseSpec Spec(const std::string& op, const std::string& provider, v1::DType dtype) {
  v1::CaseSpec spec;
  const auto* field = v1::CaseSpec::descriptor()->FindFieldByName(op);
  if (field != nullptr) spec.GetReflection()->MutableMessage(&spec, field);
  spec.set_provider(provider);
  spec.set_dtype(dtype);
  return spec;
}

// As many kernels as the daemon's largest backend has today, and some.
std::vector<v1::Kernel> ManyKernels(int wanted, std::vector<v1::CaseSpec>* specs) {
  std::vector<v1::Kernel> kernels;
  const auto* problems = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  for (const char* provider : {"builtin", "vendor", "another", "fourth"}) {
    for (int i = 0; i < problems->field_count(); ++i) {
      v1::Kernel kernel;
      kernel.set_op(problems->field(i)->name());
      kernel.set_provider(provider);
      kernel.set_available(true);
      for (int dtype = 1; dtype <= v1::DType_MAX && static_cast<int>(specs->size()) < wanted;
           ++dtype) {
        if (!v1::DType_IsValid(dtype)) continue;
        kernel.add_dtypes(static_cast<v1::DType>(dtype));
        specs->push_back(Spec(kernel.op(), provider, static_cast<v1::DType>(dtype)));
      }
      kernels.push_back(kernel);
    }
  }
  return kernels;
}

// All that may happen on a device, to kernels that it has and to such as a client makes up.
void DoTheWorst(Metrics& metrics, const v1::Device& device,
                const std::vector<v1::CaseSpec>& specs) {
  std::vector<v1::CaseSpec> tried = specs;
  for (int i = 0; i < 1000; ++i) {
    v1::CaseSpec spec =
        Spec(i % 2 == 0 ? "softmax" : "", "odd-" + std::to_string(i), static_cast<v1::DType>(i));
    tried.push_back(spec);
  }
  for (int dtype = 0; dtype <= v1::DType_MAX; ++dtype) {
    for (const Op* op : AllOps()) {
      for (const char* provider : {"builtin", "vendor", "another", "fourth"}) {
        tried.push_back(Spec(std::string(op->name()), provider, static_cast<v1::DType>(dtype)));
      }
    }
  }
  // With roofs that the results have too, so that each kernel has an efficiency.
  v1::Device changed = device;
  for (int dtype = 1; dtype <= v1::DType_MAX; ++dtype) {
    v1::Ceiling& ceiling = *changed.add_ceilings();
    ceiling.set_dtype(static_cast<v1::DType>(dtype));
    ceiling.set_flops_per_second(1e9);
    changed.add_ceilings()->set_bytes_per_second(1e9);
  }
  metrics.DeviceChanged(changed);
  for (const v1::CaseSpec& spec : tried) {
    for (int v = v1::VERDICT_PASSED; v <= v1::Verdict_MAX; ++v) {
      metrics.CaseFinished(Everything(device.id(), spec, static_cast<v1::Verdict>(v)));
    }
  }
  *changed.mutable_telemetry() = FullTelemetry();
  metrics.TelemetryChanged(changed);
  for (int i = 0; i < 1000; ++i) {
    const std::string odd = "odd-" + std::to_string(i);
    metrics.WorkerRestarted(device.id(), odd);
    metrics.QualificationFinished(device.id(), odd, v1::VERDICT_PASSED, 1, 1);
    metrics.RpcFinished(odd, "OK", 0.1);
    metrics.QueueDepth(odd, 1);
  }
  SuiteTally tally;
  for (const v1::CaseSpec& spec : tried) {
    tally.Add(Everything(device.id(), spec, v1::VERDICT_PASSED));
  }
  for (const char* level : {"1", "2", "3", "4", "quick", "medium", "nightly", "extended"}) {
    metrics.QualificationFinished(device.id(), level, v1::VERDICT_PASSED, 1, 1);
    metrics.SuiteFinished(level, "1", tally);
  }
}

TEST_F(MetricsTest, EveryKernelOfTheDaemonHasItsOwnName) {
  std::vector<v1::CaseSpec> specs;
  const std::vector<v1::Kernel> kernels = ManyKernels(100, &specs);
  ASSERT_EQ(specs.size(), 100u);
  v1::Device device = Cpu();
  device.set_id("cuda:0");
  metrics_->AddDevice(device, kernels);
  for (const v1::CaseSpec& spec : specs) {
    metrics_->CaseFinished(Everything("cuda:0", spec, v1::VERDICT_FAILED));
  }
  const std::string text = Text();
  for (const char* verdict : {"PASSED", "FAILED"}) {
    EXPECT_THAT(text, HasSubstr(std::string("assay_cases_total{device=\"cuda:0\",dtype=\"other\","
                                            "op=\"other\",provider=\"other\",verdict=\"") +
                                verdict + "\"} 0\n"));
  }
  EXPECT_THAT(text, HasSubstr("assay_cases_total{device=\"cuda:0\",dtype=\"fp32\",op=\"copy\","
                              "provider=\"builtin\",verdict=\"FAILED\"} 1\n"));
}

TEST_F(MetricsTest, PrecisionHasRoomInEveryCommonFormat) {
  std::vector<v1::CaseSpec> specs;
  v1::Device device = Cpu();
  device.set_id("cuda:0");
  metrics_->AddDevice(device, ManyKernels(120, &specs));
  for (const v1::CaseSpec& spec : specs) {
    metrics_->CaseFinished(Everything("cuda:0", spec, v1::VERDICT_FAILED));
  }
  const std::string text = Text();
  int common = 0;
  for (const v1::CaseSpec& spec : specs) {
    const KernelId id = NamesOf(spec);
    if (id.dtype != "fp32" && id.dtype != "bf16" && id.dtype != "fp16" && id.dtype != "fp64")
      continue;
    ++common;
    EXPECT_THAT(
        text,
        HasSubstr("\nassay_kernel_precision_binary_digits{device=\"cuda:0\",dtype=\"" + id.dtype +
                  "\",op=\"" + id.op + "\",provider=\"" + id.provider + "\"} 24\n"));
  }
  EXPECT_GT(common, 20);
}

// With more kernels than names, the last operators have theirs in the formats that are used most.
TEST_F(MetricsTest, TheFirstFormatsOfEveryOperatorHaveNames) {
  std::vector<v1::CaseSpec> specs;
  v1::Device device = Cpu();
  device.set_id("cuda:0");
  metrics_->AddDevice(device, ManyKernels(132, &specs));
  for (const Op* op : AllOps()) {
    for (const char* dtype : {"fp32", "bf16", "fp16"}) {
      EXPECT_THAT(Text(), HasSubstr("dtype=\"" + std::string(dtype) + "\",op=\"" +
                                    std::string(op->name()) + "\",provider=\"builtin\""));
    }
  }
  EXPECT_THAT(Text(), Not(HasSubstr("dtype=\"int32\",op=\"rope\"")));
}

TEST_F(MetricsTest, ADeviceHasAtMostTwoThousandSeriesWhateverAClientDoes) {
  for (const int count : {10, 100, 300}) {
    std::vector<v1::CaseSpec> specs;
    v1::Device device = Cpu();
    device.set_id("cuda:" + std::to_string(count));
    metrics_->AddDevice(device, ManyKernels(count, &specs));
    DoTheWorst(*metrics_, device, specs);
    EXPECT_LE(SeriesOf(Text(), device.id()), 2000) << count;
    EXPECT_LE(KernelSeriesOf(Text(), device.id()), kMostKernelSeries) << count;
    EXPECT_GT(SeriesOf(Text(), device.id()), 400) << count;
  }
  EXPECT_THAT(Text(), Not(HasSubstr("odd-")));
  EXPECT_THAT(Text(), Not(HasSubstr("made-up")));
  EXPECT_THAT(Text(), Not(HasSubstr("moon")));
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

// A socket that is connected to a port of this machine, or is about to be (SOCK_NONBLOCK).
int ConnectTo(int port, int flags = 0) {
  const int fd = socket(AF_INET, SOCK_STREAM | flags, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at);
  return fd;
}

TEST_F(MetricsTest, ThePortServesMetricsAndHealth) {
  bool healthy = true;
  MetricsServerOptions options;
  options.healthy = [&] { return healthy; };
  auto server = StartMetricsServer(*metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
  EXPECT_THAT(metrics->body, HasSubstr("assay_build_info"));
  EXPECT_THAT(metrics->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  healthy = false;
  EXPECT_EQ(client.Get("/healthz")->status, 503);
  EXPECT_EQ(client.Get("/else")->status, 404);
  EXPECT_EQ(client.Get("/health")->status, 404) << "nobody says what it is";
}

TEST_F(MetricsTest, ThePortTellsPeopleOfTheHealth) {
  MetricsServerOptions options;
  options.healthy = [] { return false; };
  options.health = [] { return std::string("{\"status\":\"draining\"}\n"); };
  auto server = StartMetricsServer(*metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto health = client.Get("/health");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200) << "it is told of, whatever it is";
  EXPECT_EQ(health->get_header_value("Content-Type"), "application/json");
  EXPECT_EQ(health->body, "{\"status\":\"draining\"}\n");
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

TEST_F(MetricsTest, APortInUseIsAnError) {
  auto first = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(first.ok()) << first.status();
  MetricsServerOptions options;
  options.port = (*first)->port();
  const auto second = StartMetricsServer(*metrics_, options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Address already in use"));
}

TEST_F(MetricsTest, ScrapersThatSayNothingDoNotStopTheOthers) {
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(ConnectTo((*server)->port()));
  httplib::Client client("127.0.0.1", (*server)->port());
  client.set_read_timeout(30);
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics) << "blocked by silent connections";
  EXPECT_EQ(metrics->status, 200);
  for (const int fd : silent) close(fd);
}

// A byte now and then is no silence: without a limit of the whole, each of them holds a thread for
// as long as it likes.
TEST_F(MetricsTest, RequestsThatComeByteByByteDoNotStopTheOthers) {
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> slow;
  for (int i = 0; i < 8; ++i) slow.push_back(ConnectTo((*server)->port()));
  std::jthread drip([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const int fd : slow) send(fd, "G", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  httplib::Client client("127.0.0.1", (*server)->port());
  client.set_read_timeout(60);
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics) << "blocked by requests that never end";
  EXPECT_EQ(metrics->status, 200);
  drip.request_stop();
  drip.join();
  for (const int fd : slow) close(fd);
}

// The library limits a body whose length is stated, and no other.
TEST_F(MetricsTest, ABodyWithoutALengthIsNotTaken) {
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  const int fd = ConnectTo((*server)->port());
  const std::string head = "POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  ASSERT_EQ(send(fd, head.data(), head.size(), MSG_NOSIGNAL), static_cast<ssize_t>(head.size()));
  const std::string chunk = "4000\r\n" + std::string(0x4000, 'x') + "\r\n";
  std::size_t taken = 0;
  while (taken < std::size_t{64} << 20) {  // more than all buffers between hold
    const ssize_t sent = send(fd, chunk.data(), chunk.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    taken += static_cast<std::size_t>(sent);
  }
  EXPECT_LT(taken, std::size_t{64} << 20);
  close(fd);
}

// A connection that no thread serves yet waits outside of the daemon once too many do.
TEST_F(MetricsTest, ConnectionsThatSayNothingDoNotTakeTheDescriptors) {
  const auto open_files = [] {
    const auto files = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  constexpr int kClients = 300;
  const auto before = open_files();
  std::vector<int> silent;
  for (int i = 0; i < kClients; ++i) {
    silent.push_back(ConnectTo((*server)->port(), SOCK_NONBLOCK));
  }
  auto most = open_files();
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    most = std::max(most, open_files());
  }
  EXPECT_LT(most - before - kClients, 100);
  for (const int fd : silent) close(fd);
}

TEST_F(MetricsTest, ThePortServesTlsAndAsksForTheClientsCertificate) {
  const TestAuthority authority;
  const PemPair own = authority.Issue(1);
  const PemPair other = authority.Issue(2);
  const std::string base = ::testing::TempDir() + "metrics_tls_";
  std::filesystem::remove(base + "key");
  std::ofstream(base + "cert") << own.cert;
  std::ofstream(base + "key") << own.key;
  std::filesystem::permissions(base + "key", std::filesystem::perms::owner_read);
  std::ofstream(base + "ca") << authority.cert();
  std::ofstream(base + "client.cert") << other.cert;
  std::ofstream(base + "client.key") << other.key;
  auto store = CertificateStore::Open({base + "cert", base + "key", base + "ca"});
  ASSERT_TRUE(store.ok()) << store.status();
  MetricsServerOptions options;
  options.setup_tls = [&](SSL_CTX* context) { return UseCertificates(**store, context); };
  auto server = StartMetricsServer(*metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();

  httplib::SSLClient stranger("127.0.0.1", (*server)->port());
  stranger.set_ca_cert_path((base + "ca").c_str());
  EXPECT_FALSE(stranger.Get("/metrics")) << "a client without a certificate was let in";
  httplib::SSLClient client("127.0.0.1", (*server)->port(), base + "client.cert",
                            base + "client.key");
  client.set_ca_cert_path((base + "ca").c_str());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics) << httplib::to_string(metrics.error());
  EXPECT_EQ(metrics->status, 200);
}

}  // namespace
}  // namespace assay::server
