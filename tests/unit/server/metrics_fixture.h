// Metrics of a CPU with two right providers and a planted one.
#ifndef ASSAY_TESTS_UNIT_SERVER_METRICS_FIXTURE_H_
#define ASSAY_TESTS_UNIT_SERVER_METRICS_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/metrics/metrics.h"

namespace assay::server {

inline v1::Device Cpu() {
  v1::Device device;
  device.set_id("cpu:0");
  device.set_backend("cpu");
  device.set_model("A \"quoted\" model");
  device.set_memory_bytes(1000);
  device.set_arena_bytes(500);
  device.set_state(v1::DEVICE_STATE_READY);
  return device;
}

inline std::vector<v1::Kernel> Kernels() {
  std::vector<v1::Kernel> kernels;
  for (const char* provider : {"onednn", "openblas", "planted/nan"}) {
    v1::Kernel kernel;
    kernel.set_op("gemm");
    kernel.set_provider(provider);
    kernel.set_available(true);
    kernel.add_dtypes(v1::DTYPE_FP32);
    kernel.add_dtypes(v1::DTYPE_BF16);
    kernels.push_back(kernel);
  }
  return kernels;
}

inline v1::CaseResult Result(const std::string& provider, v1::Verdict verdict) {
  v1::CaseResult result;
  result.set_device("cpu:0");
  result.mutable_spec()->mutable_gemm()->set_m(1);
  result.mutable_spec()->set_provider(provider);
  result.mutable_spec()->set_dtype(v1::DTYPE_BF16);
  result.set_verdict(verdict);
  return result;
}

// Telemetry with everything that is known, and what is not.
inline v1::Telemetry FullTelemetry() {
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

class MetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    metrics_ = MakeMetrics("1.2.3");
    metrics_->AddDevice(Cpu(), Kernels());
  }
  std::string Text() { return metrics_->Exposition(); }
  void ExpectLine(const std::string& line) {
    EXPECT_THAT("\n" + Text(), ::testing::HasSubstr("\n" + line + "\n"));
  }

  std::unique_ptr<Metrics> metrics_;
};

inline constexpr char kBf16[] = R"(device="cpu:0",dtype="bf16",op="gemm",provider="onednn")";

}  // namespace assay::server

#endif  // ASSAY_TESTS_UNIT_SERVER_METRICS_FIXTURE_H_
