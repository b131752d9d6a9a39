// How many series a device may have, and which kernels have names of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "kernels/ops/op.h"
#include "server/metrics/kernel_series.h"
#include "server/metrics/metrics.h"
#include "tests/unit/server/metrics_fixture.h"

namespace assay::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace assay::server
